package refusals_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// input is a request that is made to cost much.
type input struct {
	name, path string   // path: empty = that of chat completions
	lines      []string // of the header; a framing is added unless one is here
	body       string
	chunked    bool
	status     int // 0 = 400
}

// bombs are bodies of 16 MiB when they are decompressed. No node decompresses.
func bombs() (all []input) {
	zeros := func(pack func(io.Writer) io.WriteCloser) string {
		var b bytes.Buffer
		w := pack(&b)
		for range 16 {
			_, _ = w.Write(make([]byte, 1<<20))
		}
		_ = w.Close()
		return b.String()
	}
	gzipped := zeros(func(w io.Writer) io.WriteCloser { z, _ := gzip.NewWriterLevel(w, 1); return z })
	deflated := zeros(func(w io.Writer) io.WriteCloser { z, _ := zlib.NewWriterLevel(w, 1); return z })
	bare := zeros(func(w io.Writer) io.WriteCloser { z, _ := flate.NewWriter(w, 1); return z })
	for _, c := range []struct{ coding, body string }{
		{"gzip", gzipped}, {"GZIP", gzipped}, {"x-gzip", gzipped}, {"deflate", deflated}, {"deflate", bare}, {"zstd", zstdZeros()},
		{"br", gzipped}, {"gzip, gzip", gzipped}, {"br, gzip", gzipped}, {"identity", fleettest.ChatBody(1, false)}, {" , gzip", gzipped},
	} {
		all = append(all, input{name: "coding " + c.coding, lines: []string{"Content-Encoding: " + c.coding}, body: c.body},
			input{name: "coding in chunks " + c.coding, lines: []string{"Content-Encoding: " + c.coding}, body: c.body, chunked: true})
	}
	form := "--XX\r\nContent-Disposition: form-data; name=\"model\"\r\nContent-Encoding: gzip\r\n\r\n" + gzipped + "\r\n--XX--\r\n"
	return append(all,
		input{name: "two codings", lines: []string{"Content-Encoding: ", "Content-Encoding: gzip"}, body: gzipped},
		input{name: "coding not declared", body: gzipped},
		input{name: "coding of the transfer", lines: []string{"Transfer-Encoding: gzip, chunked"}},
		input{name: "coding of a part", path: "/v1/audio/transcriptions", lines: []string{"Content-Type: multipart/form-data; boundary=XX"}, body: form},
		input{name: "coding of a form", path: "/v1/audio/transcriptions", lines: []string{"Content-Type: multipart/form-data; boundary=XX", "Content-Encoding: gzip"}, body: form},
	)
}

// zstdZeros returns a zstd frame of 128 blocks of 128 KiB, four bytes each.
func zstdZeros() string {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0} // magic; single segment, size in four bytes
	b = binary.LittleEndian.AppendUint32(b, 16<<20)
	for n := range uint32(128) {
		block := uint32(128<<10)<<3 | 1<<1 // run-length block
		if n == 127 {
			block |= 1
		}
		b = append(b, byte(block), byte(block>>8), byte(block>>16), 0)
	}
	return string(b)
}

// oversized are bodies and heads beyond their limits. The model "small" accepts a KiB.
func oversized() (all []input) {
	large := `{"model":"demo-chat","messages":[{"role":"user","content":"` + strings.Repeat("a", 16<<20) + `"}]}`
	small := `{"model":"small","messages":[{"role":"user","content":"` + strings.Repeat("a", 1<<10) + `"}]}`
	form := "--XX\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nsmall\r\n--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n" +
		strings.Repeat("a", 1<<10) + "\r\n--XX--\r\n"
	isForm := []string{"Content-Type: multipart/form-data; boundary=XX"}
	return []input{
		{name: "large", body: large, status: 413},
		{name: "large, in chunks", body: large, chunked: true, status: 413},
		{name: "large, announced", lines: []string{"Content-Length: 16777217"}, status: 413},
		{name: "larger, announced", lines: []string{"Content-Length: 999999999999999"}, status: 413},
		{name: "more than a number, announced", lines: []string{"Content-Length: 99999999999999999999"}},
		{name: "largest chunk", lines: []string{"Transfer-Encoding: chunked"}, body: "FFFFFFFFFFFFFFFF\r\nx"},
		{name: "endless chunk size", lines: []string{"Transfer-Encoding: chunked"}, body: strings.Repeat("0", 100)},
		{name: "for a small model", body: small, status: 413},
		{name: "for a small model, in chunks", body: small, chunked: true, status: 413},
		{name: "for a small model, as a form", path: "/v1/audio/transcriptions", lines: isForm, body: form, status: 413},
		{name: "for a small model, as a form in chunks", path: "/v1/audio/transcriptions", lines: isForm, body: form, chunked: true, status: 413},
		{name: "target", path: fleettest.ChatPath + "?" + strings.Repeat("a", 20<<10), body: "{}", status: 431},
		{name: "header", lines: []string{"X-Long: " + strings.Repeat("a", 20<<10)}, body: "{}", status: 431},
		{name: "header name", lines: []string{strings.Repeat("a", 20<<10) + ": 1"}, body: "{}", status: 431},
		{name: "head without end", lines: []string{strings.TrimSuffix(strings.Repeat("X-A: 1\r\n", 3000), "\r\n")}, body: "{}", status: 431},
		{name: "101 headers", lines: repeated("X-A: 1", 99), body: fleettest.ChatBody(1, false), status: 431},
		{name: "100 headers", lines: repeated("X-A: 1", 98), body: fleettest.ChatBody(1, false), status: 200},
	}
}

func repeated(line string, n int) (lines []string) {
	for range n {
		lines = append(lines, line)
	}
	return lines
}

// jsonAPIs are the paths of APIs whose bodies are JSON.
var jsonAPIs = []string{
	fleettest.ChatPath, "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/rerank", "/v1/images/generations", "/v1/images/edits", "/v1/audio/speech",
	"/v1/audio/transcriptions",
}

// nested are bodies of deeply nested JSON.
func nested() (all []input) {
	const deep = 100_000
	open, closed := strings.Repeat("[", deep), strings.Repeat("]", deep)
	objects, ends := strings.Repeat(`{"a":`, deep), strings.Repeat("}", deep)
	for _, path := range jsonAPIs {
		for i, body := range []string{
			`{"model":"demo-chat","x":` + open + closed + `}`,
			`{"x":` + open + closed + `,"model":"demo-chat"}`,
			`{"model":"demo-chat","x":` + objects + "1" + ends + `}`,
			`{"model":"demo-chat","x":` + strings.Repeat(`[{"a":`, deep/2) + "1" + strings.Repeat("}]", deep/2) + `}`,
			`{"model":` + open + closed + `}`,
			`{"model":"demo-chat","stream_options":` + objects + "1" + ends + `}`,
			`{"model":"demo-chat","max_tokens":` + open + closed + `}`,
			open + closed, open, objects, `{"model":"demo-chat","x":` + open,
		} {
			all = append(all, input{name: "nested " + strconv.Itoa(i), path: path, body: body})
		}
	}
	return all
}

// ambiguous are bodies that two parsers would read in two ways.
func ambiguous() (all []input) {
	for _, path := range jsonAPIs {
		for _, second := range []string{
			`"model":"small"`, `"mod\u0065l":"small"`, `"\u006d\u006f\u0064\u0065\u006c":"small"`, `"Model":"small"`, `"MODEL":"small"`,
			`"mode\u006C":null`, `"model\u0000":"small"`, `"model\u0000x":"small"`, `"\u004dodel":"small"`,
		} {
			all = append(all, input{name: "second " + second, path: path, body: `{"model":"demo-chat","messages":[],` + second + `}`},
				input{name: "first " + second, path: path, body: `{` + second + `,"messages":[],"model":"demo-chat"}`})
		}
	}
	form := func(second string) string {
		return "--XX\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ndemo-chat\r\n--XX\r\n" + second + "\r\n--XX--\r\n"
	}
	for _, second := range []string{
		"Content-Disposition: form-data; name=\"model\"\r\n\r\nsmall", "Content-Disposition: form-data; name=\"MODEL\"\r\n\r\nsmall",
		"Content-Disposition: form-data; name=\"mod\\el\"\r\n\r\nsmall", "Content-Disposition: form-data; name=\"x\"; name=\"model\"\r\n\r\nsmall",
		"Content-Disposition: form-data; name*=utf-8''model\r\n\r\nsmall", "Content-Disposition: form-data; name=\"model\x00\"\r\n\r\nsmall",
	} {
		all = append(all, input{name: "second part " + second, path: "/v1/audio/transcriptions", body: form(second),
			lines: []string{"Content-Type: multipart/form-data; boundary=XX"}})
	}
	return append(all,
		input{name: "model in a model's object", body: `{"model":"demo-chat","messages":[],"metadata":{"model":"a","model":"b"}}`, status: 200})
}

// invalidText are bodies with NULs or invalid UTF-8.
func invalidText() (all []input) {
	prompt := func(s string) string {
		return `{"model":"demo-chat","messages":[{"role":"user","content":"` + s + `"}],"max_tokens":1}`
	}
	for _, wrong := range []string{
		"\x00", "\xc0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xc1\xbf", // overlong
		"\xed\xa0\x80", "\xed\xbf\xbf", "\xed\xa0\xbd\xed\xb8\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", // surrogates, and beyond the last
		"\x80", "\xbf", "\xfe", "\xff", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xe2\x28\xa1", // alone, and cut
	} {
		quoted := strconv.QuoteToASCII(wrong)
		all = append(all,
			input{name: "text " + quoted, body: prompt(wrong)}, input{name: "long text " + quoted, body: prompt(strings.Repeat("a", 9<<10) + wrong + "aaaaaaaa")},
			input{name: "key " + quoted, body: `{"model":"demo-chat","messages":[],"` + wrong + `":1}`},
			input{name: "model " + quoted, body: `{"model":"demo-chat` + wrong + `","messages":[]}`},
			input{name: "outside " + quoted, body: prompt("a") + wrong}, input{name: "before " + quoted, body: wrong + prompt("a")})
		for _, part := range []string{"model\"\r\n\r\ndemo-chat" + wrong, "model\"\r\n\r\ndemo-chat\r\n--XX\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\n" + wrong} {
			all = append(all, input{name: "part " + quoted, path: "/v1/audio/transcriptions", lines: []string{"Content-Type: multipart/form-data; boundary=XX"},
				body: "--XX\r\nContent-Disposition: form-data; name=\"" + part + "\r\n--XX--\r\n"})
		}
	}
	return append(all,
		input{name: "escaped NUL in the model", body: `{"model":"demo-chat\u0000","messages":[]}`},
		input{name: "half a character in the model", body: `{"model":"demo-chat\ud83d","messages":[]}`},
		input{name: "byte order mark", body: "\ufeff" + prompt("a")}, input{name: "UTF-16", body: "{\x00\"\x00m\x00"},
		input{name: "other characters", lines: []string{"Content-Type: application/json; charset=utf-16"}, body: prompt("a")},
		input{name: "NUL in a header", lines: []string{"X-A: a\x00b"}, body: prompt("a")}, input{name: "NUL in a name", lines: []string{"X\x00A: a"}, body: prompt("a")},
		input{name: "NUL in the target", path: fleettest.ChatPath + "\x00", body: prompt("a")}, input{name: "no ASCII in the target", path: fleettest.ChatPath + "\xff", body: prompt("a")},
		input{name: "CR in a header", lines: []string{"X-A: a\rX-B: b"}, body: prompt("a")}, input{name: "no ASCII in a name", lines: []string{"X-\xc3\xa4: a"}, body: prompt("a")},
		input{name: "escaped NUL in text", body: prompt(`a\u0000b`), status: 200}, input{name: "text", body: prompt("grüße, 世界 😀"), status: 200})
}

// wire encodes the input as it is sent.
func (in input) wire() []byte {
	path, lines, body := in.path, append([]string{"Host: x"}, in.lines...), in.body
	if path == "" {
		path = fleettest.ChatPath
	}
	switch all := strings.Join(in.lines, "\n"); {
	case in.chunked:
		lines, body = append(lines, "Transfer-Encoding: chunked"), wiretest.Chunked(body, 16<<10)
	case !strings.Contains(all, "Content-Length") && !strings.Contains(all, "Transfer-Encoding"):
		lines = append(lines, "Content-Length: "+strconv.Itoa(len(body)))
	}
	return []byte("POST " + path + " HTTP/1.1\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n" + body)
}

// Costly input is refused at once, with an error that names the fault, takes no more memory than its own size, and reaches no
// engine.
func TestCostlyInput(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, "key: models/small\nupstream_name: demo-chat\npool: demo\nmax_body: 1KiB")
	f.Watch(16)
	before, expected := f.EngineRequests(), uint64(0)
	for _, group := range []struct {
		name string
		make func() []input
	}{{"bombs", bombs}, {"oversized", oversized}, {"nested", nested}, {"ambiguous", ambiguous}, {"invalid text", invalidText}} {
		t.Run(group.name, func(t *testing.T) {
			for _, in := range group.make() {
				if in.status == 0 {
					in.status = 400
				}
				if in.status == 200 {
					expected++
				}
				try(t, f, f.Entry.Address, in)
				if in.body = in.body[:min(len(in.body), 1<<20)]; in.status >= 400 {
					try(t, f, f.Colos[0].Address, in)
				}
			}
		})
	}
	if n := f.EngineRequests() - before; n != expected {
		t.Errorf("%d requests reached an engine, want %d", n, expected)
	}
	if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 {
		t.Errorf("the next request: %d", a.Status)
	}
}

// try sends one input. It repeats one that took too much memory, which the rest of the process may have taken.
func try(t *testing.T, f *fleettest.Fleet, address string, in input) {
	t.Helper()
	text, most := in.wire(), 2*len(in.body)+1<<20
	for attempt := range 3 {
		w := wiretest.Dial(f.T, address)
		began, sent := allocated(), make(chan time.Time, 1)
		go func() {
			_, _ = w.Write(text) // or as much of it as is accepted
			sent <- time.Now()
		}()
		a := w.Read()
		took := time.Since(<-sent)
		cost := allocated() - began
		w.Close()
		switch public := address == f.Entry.Address; {
		case public && a.Status != in.status || a.Status/100 != in.status/100 || a.Err != nil:
			t.Errorf("%s %s: %d %v %.300q, want %d", in.name, in.path, a.Status, a.Err, a.Body, in.status)
		case a.Status >= 400 && a.APIError(t).Code == "":
			t.Errorf("%s %s: no error object: %q", in.name, in.path, a.Body)
		}
		if took > time.Second || testkit.Soak() && took > 100*time.Millisecond {
			t.Errorf("%s %s: answered after %v", in.name, in.path, took)
		}
		if cost <= most || a.Status == 200 {
			return
		}
		if attempt == 2 {
			t.Errorf("%s %s: %d KiB of memory for a body of %d KiB", in.name, in.path, cost>>10, len(in.body)>>10)
		}
	}
}

// allocated returns how many bytes this process has allocated since its start.
func allocated() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.TotalAlloc)
}
