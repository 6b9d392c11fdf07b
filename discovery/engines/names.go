package engines

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// CheckURL returns an error unless an engine may have this URL. http:// may be left out.
func CheckURL(raw string) error {
	_, err := normalURL(raw)
	return err
}

// normalURL returns a URL as documents have it in force: with a scheme, in lower case up to its path, without the scheme's
// own port, a trailing slash or /v1.
func normalURL(raw string) (string, error) {
	full := strings.TrimSpace(raw)
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	set, key := document.NewSet(), fleet.KindEndpoint.Key("local", "engine")
	err := set.Put(key, []byte("pool: engine\nurl: "+quoted(full)+"\n"), 0)
	if invalid := (*document.InvalidError)(nil); errors.As(err, &invalid) {
		return "", fmt.Errorf("cannot use the URL of an engine: %s: %s", cmp.Or(invalid.Value, "URL"), invalid.Reason)
	}
	endpoint, ok := set.Noun(key).(*fleet.Endpoint)
	if !ok {
		return "", errors.New("cannot use the URL of an engine")
	}
	return endpoint.URL, nil
}

// maxName is the length of the longest name that documents accept.
const maxName = 128

// endpointID returns the ID of the endpoint with this URL: host and port, then the path. Different URLs have different IDs, but for
// http and https of one port.
func endpointID(normal string) string {
	u, err := url.Parse(normal)
	if err != nil {
		return "engine"
	}
	host, port := u.Hostname(), u.Port()
	if strings.Contains(host, ":") {
		host = "ip6-" + host
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	id := host + "-" + port + u.Path
	if !validName(id) {
		sum := sha256.Sum256([]byte(normal))
		hash := hex.EncodeToString(sum[:4])
		clean := strings.Map(func(r rune) rune {
			if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._:/@+-", r)) {
				return r
			}
			return '-'
		}, id)
		id = strings.TrimLeft(clean[:min(len(clean), maxName-len(hash)-1)], "._:/@+-") + "-" + hash
	}
	return id
}

// modelName returns the name by which clients ask for a model that the engine calls upstream: the same where documents accept
// it, or else the last element of a path without .gguf, since an engine names a model in a file after the file. "" = there is none.
func modelName(upstream string) string {
	if strings.HasSuffix(upstream, ":") {
		return "" // documents accept it, but in a file it would end like the key of a map
	}
	if validName(upstream) && !strings.HasSuffix(upstream, ".gguf") {
		return upstream
	}
	unsafe := func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }
	if len(upstream) > document.MaxText || strings.ContainsFunc(upstream, unsafe) {
		return "" // no document can hold what the engine calls it
	}
	name := strings.TrimSuffix(path.Base(strings.ReplaceAll(upstream, `\`, "/")), ".gguf")
	if validName(name) {
		return name
	}
	return ""
}

func validName(name string) bool {
	return document.CheckKey(fleet.KindPool.Key(name)) == nil
}

// guessType returns the type of a model by its name, for engines that do not say it.
func guessType(name string) fleet.ModelType {
	name = strings.ToLower(name)
	base := path.Base(name)
	switch {
	case strings.Contains(name, "rerank"):
		return typeRerank
	case strings.Contains(name, "embed"), strings.HasPrefix(base, "bge-"), strings.HasPrefix(base, "gte-"),
		strings.HasPrefix(base, "e5-"), strings.HasPrefix(base, "all-minilm"):
		return typeEmbedding
	case strings.HasPrefix(base, "whisper"):
		return typeAudio
	}
	return fleet.TypeChat
}

// guessed returns the model with a type by its name, and a note that says so.
func guessed(m Model) Model {
	m.Type = guessType(m.Upstream)
	m.Note = fmt.Sprintf("The engine does not say which API the model answers; type %s is assumed from its name.", m.Type)
	return m
}

// maxShown is the length of the longest text of an engine in notes, comments and errors.
const maxShown = 160

// printable returns a text of an engine for notes and comments: on one line and shortened.
func printable(s string) string {
	s = printableLine(s)
	if runes := []rune(s); len(runes) > maxShown {
		return string(runes[:maxShown]) + "…"
	}
	return s
}

// printableLine puts a text on one line, without characters that move a terminal's cursor or end a comment.
func printableLine(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return ' '
	}, s)), " ")
}

// shown returns a text of an engine in quotes.
func shown(s string) string { return strconv.Quote(printable(s)) }
