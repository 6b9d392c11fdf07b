package httpguard_test

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"colonnade/forwarding/httpguard"
)

// An accepted head is accepted and framed alike by net/http, and the headers that matter occur once.
func FuzzCheckHead(f *testing.F) {
	f.Add("POST", "/v1/completions", "Host: a\r\nContent-Length: 3\r\n")
	f.Add("GET", "http://a/v1/models", "Host: a\r\nX-Colonnade-Hop: v1\r\nx_colonnade_hop: v2\r\n")
	f.Add("POST", "/", "Host: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n")
	f.Add("GET", "/", "Host: a\r\nConnection: close\r\n folded\r\n\tx")
	f.Add("GET", "/?x", "Host: a\nA: b\rC: d\r\n\r\n")
	f.Fuzz(func(t *testing.T, method, target, raw string) {
		h := httpguard.RequestHead{Method: []byte(method), Target: []byte(target), Protocol: []byte("HTTP/1.1"), Raw: []byte(raw)}
		if httpguard.CheckHead(h) != nil {
			return
		}
		raw = strings.TrimSuffix(raw, "\r\n\r\n")
		text := method + " " + target + " HTTP/1.1\r\n" + strings.TrimSuffix(raw, "\r\n") + "\r\n\r\n"
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			t.Fatalf("net/http refuses %q: %v", text, err)
		}
		checkFraming(t, r, text)
		if !strings.EqualFold(r.Host, headerLine(text, "host")) {
			t.Errorf("%q: host %q", text, r.Host)
		}
		for name, values := range r.Header {
			alias := strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
			once := alias == "x-colonnade-hop" || alias == "authorization" || alias == "api-key" || alias == "x-api-key" || alias == "content-type"
			ours := once || strings.HasPrefix(alias, "x-colonnade-")
			if ours && alias != strings.ToLower(name) {
				t.Errorf("%q: %q aliases", text, name)
			}
			if len(values) > 1 && once {
				t.Errorf("%q: %q occurs twice", text, name)
			}
		}
	})
}

func checkFraming(t *testing.T, r *http.Request, text string) {
	length, coding := headerLine(text, "content-length"), headerLine(text, "transfer-encoding")
	switch {
	case coding != "":
		if coding != "chunked" || length != "" || len(r.TransferEncoding) != 1 || r.Method == "GET" {
			t.Errorf("%q: coding %q with %v", text, coding, r.TransferEncoding)
		}
	case length != "":
		if n, err := strconv.ParseInt(length, 10, 64); err != nil || n != r.ContentLength {
			t.Errorf("%q: length %q read as %d", text, length, r.ContentLength)
		}
	case r.ContentLength > 0:
		t.Errorf("%q: length %d from nowhere", text, r.ContentLength)
	}
}

// headerLine returns the value of the header called name as a naive parser finds it.
func headerLine(text, name string) string {
	found := ""
	for _, line := range strings.Split(text, "\r\n")[1:] {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(key, name) {
			found += strings.Trim(value, " \t")
		}
	}
	return found
}
