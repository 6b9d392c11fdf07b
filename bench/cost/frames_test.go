package cost

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
)

func TestFramesAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	f := func(length int, fromClient bool) {
		t.Helper()
		want := frame{textFrame, []byte(strings.Repeat("*", length))}
		text := want.appendTo(nil, fromClient)
		if masked := !bytes.HasSuffix(text, want.payload); length > 0 && masked != fromClient {
			t.Errorf("%d bytes: masked: %v", length, masked)
		}
		got, err := readFrame(bufio.NewReader(bytes.NewReader(text)), make([]byte, longestFrame))
		if err != nil || got.first != want.first || !bytes.Equal(got.payload, want.payload) {
			t.Errorf("%d bytes: %v, %d bytes of %#x", length, err, len(got.payload), got.first)
		}
	}
	for _, length := range []int{0, 1, 125, 126, messageBytes} {
		f(length, true)
		f(length, false)
	}
	if got := acceptKey("dGhlIHNhbXBsZSBub25jZQ=="); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Errorf("the key of RFC 6455's example is answered with %q", got)
	}
}

func TestHeads(t *testing.T) {
	t.Parallel()
	f := func(text string, want head) {
		t.Helper()
		if got, err := readHead(bufio.NewReader(strings.NewReader(text))); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	f("HTTP/1.1 200 OK\r\nX: y\r\ncontent-length: 12\r\n\r\n", head{first: "HTTP/1.1 200 OK", length: 12})
	f("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", head{first: "HTTP/1.1 200 OK", length: -1, chunked: true})
	f("GET / HTTP/1.1\r\nSec-WebSocket-Key: abc\r\n\r\n", head{first: "GET / HTTP/1.1", length: -1, key: "abc"})
	request := chatRequest("k", "m", &streamShape{7, 30})
	if shape, streamed := shapeIn(request); !streamed || shape != (streamShape{7, 30}) {
		t.Errorf("the shape %+v, %v", shape, streamed)
	}
	if _, streamed := shapeIn(chatRequest("k", "m", nil)); streamed {
		t.Error("a plain request asks for a stream")
	}
	if n := len(request); n < 1000 || n > 1200 {
		t.Errorf("a request has %d bytes", n)
	}
}

func TestFunctionTakesTheLeastOfTheRuns(t *testing.T) {
	t.Parallel()
	var f Function
	err := f.read("goos: linux\nBenchmarkX-2   \t 1203\t       97.5 ns/op\t       0 B/op\t       1 allocs/op\nBenchmarkX-2 \t 1203\t 90 ns/op\t 0 B/op\t 1 allocs/op\nPASS\n")
	if err != nil || f.Nanos != 90 || f.Allocs != 1 {
		t.Errorf("%v ns, %v allocations, %v", f.Nanos, f.Allocs, err)
	}
	if err := f.read("PASS\n"); err == nil {
		t.Error("no benchmark ran, without an error")
	}
}

// A ratio is that of the same round, so a machine that is slow in one round changes nothing.
func TestRatioIsOfTheSameRound(t *testing.T) {
	t.Parallel()
	f := func(rounds ...float64) (f Figures) {
		for _, v := range rounds {
			f.Rounds = append(f.Rounds, Round{CPU: v})
		}
		return f
	}
	a, b := f(2, 20, 3), f(1, 10, 1)
	if got := a.Ratio(b, CPU); got != 2 {
		t.Errorf("ratio %v", got)
	}
	if a.Median(CPU) != 3 || a.Least(CPU) != 2 || a.Most(CPU) != 20 {
		t.Errorf("median %v, least %v, most %v", a.Median(CPU), a.Least(CPU), a.Most(CPU))
	}
	if got := f(1, 2).Median(CPU); got != 1.5 {
		t.Errorf("the median of two is %v", got)
	}
}
