package transport

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"colonnade/forwarding/hop"
)

func readHeadString(s string) (head, error) {
	return readHead(bufio.NewReaderSize(strings.NewReader(s), readBuffer))
}

func TestReadHead(t *testing.T) {
	f := func(raw string, status int, length int64, chunked, closes bool) {
		t.Helper()
		h, err := readHeadString(raw)
		if err != nil {
			t.Errorf("readHead(%q): %v", raw, err)
			return
		}
		if h.status != status || h.length != length || h.chunked != chunked || h.close != closes {
			t.Errorf("readHead(%q) = %+v", raw, h)
		}
	}
	f("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, 5, false, false)
	f("HTTP/1.1 200\r\ntransfer-encoding: CHUNKED\r\n\r\n", 200, -1, true, false)
	f("HTTP/1.1 503 Busy\r\nConnection: close\r\n\r\n", 503, -1, false, true)
	f("HTTP/1.1 200 OK\r\nconnection: x, CLOSE\r\ncontent-length: 0\r\n\r\n", 200, 0, false, true)
	f("HTTP/1.0 200 OK\r\n\r\n", 200, -1, false, true)
	f("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n", 200, 1, false, false)
	f("HTTP/1.0 200 OK\r\nConnection: x\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n", 200, 1, false, false)
	f("HTTP/1.1 200 OK\r\nConnection: close\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n", 200, 1, false, true)
	f("HTTP/1.1 204 None\r\nContent-Length: 0\r\n\r\n", 204, 0, false, false)
	f("HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n", 304, 5, false, true)
	f("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 None\r\n\r\n", 204, -1, false, false)
}

func TestReadHeadRefuses(t *testing.T) {
	for name, raw := range map[string]string{
		"both lengths":       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"two lengths":        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
		"signed length":      "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
		"negative length":    "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"gzip, chunked":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"two encodings":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		"folded line":        "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\n\r\n",
		"space before colon": "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
		"bare CR":            "HTTP/1.1 200 OK\r\nX-A: b\rc\r\n\r\n",
		"bare LF":            "HTTP/1.1 200 OK\nX-A: b\n\n",
		"LF after status":    "HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\n",
		"CR after status":    "HTTP/1.1 200 OK\rContent-Length: 5\r\n\r\n",
		"NUL after status":   "HTTP/1.1 200 \x00\r\n\r\n",
		"LF in a line":       "HTTP/1.1 200 OK\r\nX-A: b\nContent-Length: 5\r\n\r\n",
		"chunked, old":       "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"204 with a body":    "HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\nhello",
		"204 in chunks":      "HTTP/1.1 204 None\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"1xx with a body":    "HTTP/1.1 103 Hints\r\nContent-Length: 9\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
		"status 0":           "HTTP/1.1 000 OK\r\n\r\n",
		"status 99":          "HTTP/1.1 099 OK\r\n\r\n",
		"status 600":         "HTTP/1.1 600 OK\r\n\r\n",
		"status 999":         "HTTP/1.1 999 OK\r\n\r\n",
		"version 1.2":        "HTTP/1.2 200 OK\r\n\r\n",
		"lower case":         "http/1.1 200 OK\r\n\r\n",
		"space before it":    " HTTP/1.1 200 OK\r\n\r\n",
		"line before it":     "\r\nHTTP/1.1 200 OK\r\n\r\n",
		"list of lengths":    "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
		"no length":          "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
		"no encoding":        "HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\r\n",
		"space in a name":    "HTTP/1.1 200 OK\r\nContent Length: 5\r\n\r\n",
		"no name":            "HTTP/1.1 200 OK\r\n: 5\r\n\r\n",
		"NUL":                "HTTP/1.1 200 OK\r\nX-A: \x00\r\n\r\n",
		"no colon":           "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
		"HTTP/2":             "HTTP/2.0 200 OK\r\n\r\n",
		"not HTTP":           "SSH-2.0-OpenSSH_9.9\r\n\r\n",
		"short status":       "HTTP/1.1 20 OK\r\n\r\n",
		"long status":        "HTTP/1.1 2000 OK\r\n\r\n",
		"cut":                "HTTP/1.1 200 OK\r\nContent-Le",
		"too large":          "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", readBuffer) + "\r\n\r\n",
		"flood of 1xx":       strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100) + "HTTP/1.1 200 OK\r\n\r\n",
	} {
		if h, err := readHeadString(raw); !errors.Is(err, errMalformed) {
			t.Errorf("%s: readHead = %+v, %v; want a malformed answer", name, h, err)
		}
	}
	if _, err := readHeadString(""); !errors.Is(err, io.EOF) {
		t.Errorf("nothing at all: %v, want EOF", err)
	}
}

func TestHeadGet(t *testing.T) {
	h, err := readHeadString("HTTP/1.1 200 OK\r\nX-Colonnade-Load: free=1\r\nContent-Type:text/plain \r\nx: \r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{hop.HeaderLoad: "free=1", "content-type": "text/plain", "x": "", "load": "", "content": ""} {
		if got := h.get(name); got != want {
			t.Errorf("get(%q) = %q, want %q", name, got, want)
		}
	}
}

// A head that is accepted is accepted and framed alike by net/http.
func FuzzReadHead(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
	f.Add("HTTP/1.0 503 x\r\nA: b\r\n\r\n")
	f.Fuzz(func(t *testing.T, raw string) {
		h, err := readHeadString(raw)
		if err != nil || h.status == 101 {
			return
		}
		br := bufio.NewReaderSize(strings.NewReader(raw), readBuffer)
		var theirs *http.Response
		for {
			if theirs, err = http.ReadResponse(br, nil); err != nil {
				t.Fatalf("we accept %q, net/http says: %v", raw, err)
			}
			if theirs.StatusCode >= 200 {
				break
			}
		}
		if theirs.StatusCode != h.status {
			t.Fatalf("%q: status %d, net/http says %d", raw, h.status, theirs.StatusCode)
		}
		if chunked := len(theirs.TransferEncoding) > 0; chunked != h.chunked && !h.bodyless() {
			t.Fatalf("%q: chunked %v, net/http says %v", raw, h.chunked, chunked)
		}
		if !h.chunked && h.length < 0 && theirs.ContentLength >= 0 && !h.bodyless() {
			t.Fatalf("%q: ends with the connection, net/http says after %d", raw, theirs.ContentLength)
		}
		if ends := h.chunked || h.length >= 0; ends && theirs.Close && !h.close {
			t.Fatalf("%q: the connection is kept, net/http closes it", raw)
		}
		if !h.chunked && h.length >= 0 && theirs.ContentLength != h.length && !h.bodyless() {
			t.Fatalf("%q: length %d, net/http says %d", raw, h.length, theirs.ContentLength)
		}
	})
}
