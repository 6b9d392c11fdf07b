package clickhousetest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	chcompress "github.com/ClickHouse/ch-go/compress"
	chproto "github.com/ClickHouse/ch-go/proto"
)

// handler is the HTTP interface of an engine.
type handler struct{ engine *engine }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, ok := r.BasicAuth()
	if !ok {
		user, password = r.Header.Get("X-ClickHouse-User"), r.Header.Get("X-ClickHouse-Key")
	}
	if user != User || password != Password {
		fail(w, http.StatusForbidden, fmt.Errorf("Code: 516. DB::Exception: %s: Authentication failed: password is incorrect, or there is no user with such name. (AUTHENTICATION_FAILED)", user)) //nolint:staticcheck // as ClickHouse says it
		return
	}
	body, err := read(r)
	if err != nil {
		fail(w, http.StatusBadRequest, fmt.Errorf("Code: 32. DB::Exception: %w. (ATTEMPT_TO_READ_AFTER_EOF)", err)) //nolint:staticcheck // likewise
		return
	}
	params := r.URL.Query()
	statement, data := h.statementOf(params, body)
	answer, err := h.engine.run([]string{"use " + params.Get("database"), statement}, data)
	if err == nil {
		answer, err = encode(answer, params.Get("compress") == "1")
	}
	var refused exception
	switch {
	case err == nil:
		_, _ = w.Write(answer)
	case errors.As(err, &refused):
		fail(w, http.StatusInternalServerError, err)
	default:
		panic(http.ErrAbortHandler) // the engine is dead
	}
}

// read returns the body of a request, decompressed.
func read(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil || len(body) == 0 {
		return body, err
	}
	var reader io.Reader = bytes.NewReader(body)
	switch {
	case r.Header.Get("Content-Encoding") == "gzip":
		if reader, err = gzip.NewReader(reader); err != nil {
			return nil, err
		}
	case r.URL.Query().Get("decompress") == "1":
		compressed := chproto.NewReader(reader)
		compressed.EnableCompression()
		reader = compressed
	}
	body, err = io.ReadAll(reader)
	if errors.Is(err, io.EOF) { // of compressed blocks; a part of one is io.ErrUnexpectedEOF
		err = nil
	}
	return body, err
}

// ofProtocol are the parameters of a request that are no settings.
var ofProtocol = []string{"query", "database", "default_format", "client_protocol_version", "compress", "decompress", "wait_end_of_query",
	"query_id", "network_compression_method", "network_zstd_compression_level"}

// statementOf returns the statement of a request, with its settings if it is an insert, and its data.
func (h *handler) statementOf(params url.Values, body []byte) (statement string, data []byte) {
	statement, isInsert := strings.CutSuffix(params.Get("query"), " FORMAT Native")
	if !isInsert {
		return statement + string(body), nil
	}
	var settings []string
	for name := range params {
		if !slices.Contains(ofProtocol, name) {
			settings = append(settings, fmt.Sprintf("%s = '%s'", name, params.Get(name)))
		}
	}
	return fmt.Sprintf("%s from infile '%s' settings %s format Native", statement, h.engine.file, strings.Join(settings, ", ")), body
}

var code = regexp.MustCompile(`Code: (\d+)\.`)

// fail answers as ClickHouse does.
func fail(w http.ResponseWriter, status int, err error) {
	text := err.Error()
	if at := code.FindStringSubmatchIndex(text); at != nil {
		w.Header().Set("X-ClickHouse-Exception-Code", text[at[2]:at[3]])
		text = text[at[0]:]
	}
	http.Error(w, text, status)
}

// encode returns blocks as a client gets them, after the ones of the engine, which have no revision.
func encode(native []byte, compressed bool) ([]byte, error) {
	answer, err := withRevision(native)
	if err != nil || !compressed || len(answer) == 0 {
		return answer, err
	}
	writer := chcompress.NewWriter(chcompress.LevelZero, chcompress.ZSTD)
	if err := writer.Compress(answer); err != nil {
		return nil, err
	}
	return writer.Data, nil
}
