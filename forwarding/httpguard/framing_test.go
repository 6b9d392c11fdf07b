package httpguard_test

import (
	"strings"
	"testing"

	"colonnade/forwarding/httpguard"
)

// passed returns the part of text that is well framed, when text arrives in pieces of a size.
func passed(text string, size int) string {
	var f httpguard.Framing
	var b strings.Builder
	for len(text) > 0 {
		piece := text[:min(size, len(text))]
		text = text[len(piece):]
		n := f.Advance([]byte(piece))
		b.WriteString(piece[:n])
		if n < len(piece) != f.Broken() {
			return "broken says otherwise"
		}
		if f.Broken() {
			break
		}
	}
	return b.String()
}

func TestFraming(t *testing.T) {
	const first, end, hidden = "POST / HTTP/1.1\r\n", "Host: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	const inChunks = first + "Transfer-Encoding: chunked\r\n" + end
	// f expects text to be well framed up to its first ^, which stands before the LF of a malformed line, or as a whole.
	f := func(text string) {
		t.Helper()
		want, _, _ := strings.Cut(text, "^")
		text = strings.ReplaceAll(text, "^", "")
		for _, size := range []int{1, 2, 3, 7, 50, 1 << 20} {
			if got := passed(text, size); got != want {
				t.Errorf("%q in pieces of %d: %q passes, want %q", text, size, got, want)
			}
		}
	}
	long := strings.Repeat("a", 300)
	f(hidden + hidden)
	f("\r\n\r\n" + hidden)
	f("\r\n^\n" + hidden)
	f("^\n" + hidden)
	f("GET / HTTP/1.1^\nHost: a\r\n\r\n")
	f(first + "Host: a^\n\r\n")
	f(first + long + ":" + long + "\r\n" + end + first + long + "^\n")
	f(first + "Host: a\r\n^\nGET")
	f(first + "content-length:\t3 \r\n" + end + "a\nb" + hidden)
	f(first + "Content-Length: 0\r\n" + end + hidden)
	f(first + "Content-Length: 300\r\n" + end + strings.Repeat("\n", 300) + hidden + "^\n")
	f(inChunks + "3\r\na\nb\r\n0a;b=\"c\"\r\n0123456789\r\n000\r\n\r\n" + hidden)
	f(inChunks + "0\r\nX: y\r\n\r\n" + hidden)
	for _, bad := range []string{"3^\nabc", "3\r\r^\n", "\r^\n", "0x3\r^\n", "+3\r^\n", " 3\r^\n", "3 \r^\n", "3 ;a\r^\n", "g\r^\n", "3;\x00\r^\n", "3;a\rb\r^\n", "0000000000000003\r^\n", "3;" + long + "\r^\n",
		"3\r\nabc^\n", "3\r\nabcd\r^\n", "3\r\nabc\r\r^\n", "3\r\nabc\r\n^\n", "0\r\n^\n" + hidden, "0^\n", "0\r\nX: y^\n", "0\r\nX: y\r\n^\n"} {
		f(inChunks + bad)
	}
	pad := strings.Repeat(" ", 200)
	f(first + "Content-Length:" + pad + "0\r^\n" + end + "POST / HTTP/1.1\n")
	f(first + "Transfer-Encoding:" + pad + "chunked\r^\n" + end + "3 \r\nabc\r\n")
	// A request that CheckHead refuses is followed no further: its connection ends.
	for _, head := range []string{"Content-Length: 3\r\nContent-Length: 3\r\n", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
		"Content-Length: +3\r\n", "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		"Upgrade: websocket\r\n", "Content-Length: 3\r\nUpgrade: h2c\r\n"} {
		f(first + head + end + "abc\n\n\n")
	}
}

// The well-framed part is a prefix that does not depend on the pieces in which the text arrives.
func FuzzFraming(f *testing.F) {
	f.Add("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n", uint8(3))
	f.Add("\r\nPOST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n\n\n\n\n\nGET / HTTP/1.1\n", uint8(1))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		whole := passed(text, len(text)+1)
		if got := passed(text, int(size)+1); got != whole || !strings.HasPrefix(text, whole) {
			t.Errorf("%q: %q passes in pieces of %d, else %q", text, got, size+1, whole)
		}
	})
}

func BenchmarkFraming(b *testing.B) {
	text := []byte("POST /v1/chat/completions HTTP/1.1\r\n" + sdkHead + strings.Repeat("x", 1024))
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	var f httpguard.Framing
	for b.Loop() {
		if f.Advance(text) < len(text) {
			b.Fatal("broken")
		}
	}
}
