package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/iotest"

	"colonnade/forwarding/netconn"
)

func readBody(h head, r io.Reader) (string, error) {
	b := newBody(bufio.NewReaderSize(r, readBuffer), &h)
	var out bytes.Buffer
	for {
		piece, err := b.next()
		out.Write(piece)
		if err != nil && !errors.Is(err, netconn.ErrWouldBlock) {
			return out.String(), err
		}
	}
}

// hesitantReader returns ErrWouldBlock before each byte.
type hesitantReader struct {
	io.Reader
	ready bool
}

func (r *hesitantReader) Read(p []byte) (int, error) {
	if r.ready = !r.ready; r.ready {
		return 0, netconn.ErrWouldBlock
	}
	return r.Reader.Read(p[:1])
}

func TestBodyEnds(t *testing.T) {
	f := func(h head, raw, want string, wantErr error) {
		t.Helper()
		for name, r := range map[string]io.Reader{"at once": strings.NewReader(raw), "byte by byte": iotest.OneByteReader(strings.NewReader(raw)),
			"with waits": &hesitantReader{Reader: strings.NewReader(raw)}} {
			got, err := readBody(h, r)
			if got != want || !errors.Is(err, wantErr) {
				t.Errorf("%s %q = %q, %v; want %q, %v", name, raw, got, err, want, wantErr)
			}
		}
	}
	length := head{status: 200, length: 5}
	f(length, "hello, world", "hello", io.EOF)
	f(length, "hel", "hel", io.ErrUnexpectedEOF)
	f(head{status: 200, length: 0}, "", "", io.EOF)
	f(head{status: 204, length: -1}, "x", "", io.EOF)
	f(head{status: 200, length: -1}, "hello", "hello", io.EOF)

	chunked := head{status: 200, length: -1, chunked: true}
	f(chunked, "5\r\nhello\r\n0\r\n\r\n", "hello", io.EOF)
	f(chunked, "5;x=y\r\nhello\r\n1 \r\n!\r\n0\r\nTrailer: x\r\n\r\n", "hello!", io.EOF)
	f(chunked, "5\r\nhello\r\n", "hello", io.ErrUnexpectedEOF) // cut at a chunk's boundary
	f(chunked, "5\r\nhel", "hel", io.ErrUnexpectedEOF)
	f(chunked, "5\r\nhello\r\n0\r\n", "hello", io.ErrUnexpectedEOF)
	f(chunked, "5\r\nhelloXX3\r\nabc\r\n0\r\n\r\n", "hello", errMalformed)
	f(chunked, "-5\r\nhello\r\n", "", errMalformed)
	f(chunked, "\r\nhello\r\n", "", errMalformed)
	f(chunked, "0x5\r\nhello\r\n0\r\n\r\n", "", errMalformed)
	f(chunked, "5\nhello\n0\n\n", "", errMalformed)
	f(chunked, "ffffffffffffffffff\r\n", "", errMalformed)
	f(chunked, "5 6\r\nhello\r\n0\r\n\r\n", "", errMalformed)
	f(chunked, " 5\r\nhello\r\n0\r\n\r\n", "", errMalformed)
	f(chunked, "+5\r\nhello\r\n0\r\n\r\n", "", errMalformed)
	f(chunked, "5;a\rb\r\nhello\r\n0\r\n\r\n", "", errMalformed)
	f(chunked, "5;a\x00\r\nhello\r\n0\r\n\r\n", "", errMalformed)
	f(chunked, strings.Repeat("5", readBuffer+1), "", errMalformed)
	f(chunked, "1;"+strings.Repeat("x", readBuffer)+"\r\nh\r\n", "", errMalformed)
	f(chunked, "1\r\nh\r\n0\r\nnonsense\r\n\r\n", "h", errMalformed)
	f(chunked, "1\r\nh\r\n0\r\nA: b\r\n c\r\n\r\n", "h", errMalformed)
	f(chunked, "1\r\nh\r\n0\r\nA: b\rc\r\n\r\n", "h", errMalformed)
	f(chunked, "1\r\nh\r\n0\r\n"+strings.Repeat("A: b\r\n", 100)+"\r\n", "h", errMalformed)
}

// A body does not depend on its chunks and on the reads in which it arrives.
func TestBodyChunksProperty(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		var want, raw bytes.Buffer
		for range random.IntN(20) {
			chunk := bytes.Repeat([]byte{byte('a' + random.IntN(26))}, 1+random.IntN(40_000))
			want.Write(chunk)
			fmt.Fprintf(&raw, "%x\r\n%s\r\n", len(chunk), chunk)
		}
		raw.WriteString("0\r\n\r\n")
		got, err := readBody(head{status: 200, length: -1, chunked: true}, iotest.HalfReader(&raw))
		if !errors.Is(err, io.EOF) || got != want.String() {
			t.Fatalf("read %d bytes, %v; want %d", len(got), err, want.Len())
		}
	}
}

// A chunked body that is complete is the same to the standard library.
func FuzzChunkedBody(f *testing.F) {
	f.Add([]byte("5\r\nhello\r\n0\r\n\r\n"))
	f.Add([]byte("1;a\r\nx\r\n000\r\nT: v\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := readBody(head{status: 200, length: -1, chunked: true}, bytes.NewReader(raw))
		if !errors.Is(err, io.EOF) {
			return
		}
		want, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(raw)))
		if err != nil || got != string(want) {
			t.Fatalf("%q: we read %q, the standard library %q, %v", raw, got, want, err)
		}
	})
}
