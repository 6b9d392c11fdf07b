package transport_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/internal/testkit"
)

// receiveBinary reads a request with a binary head and a body.
func receiveBinary(c net.Conn) (h hop.RequestHead, body []byte, err error) {
	br := bufio.NewReaderSize(c, hop.MaxBinaryHead)
	head, err := forwardtest.ReadBinaryHead(br)
	if err != nil {
		return h, nil, err
	}
	if h, err = hop.ParseRequestHead(head); err != nil {
		return h, nil, err
	}
	body = make([]byte, h.Length)
	_, err = io.ReadFull(br, body)
	return h, body, err
}

// binaryAnswer returns a head and what follows it.
func binaryAnswer(t *testing.T, status int, length int64, fields, body string) string {
	t.Helper()
	b := hop.BeginAnswerHead(nil)
	for field := range strings.SplitSeq(fields, "\n") {
		name, value, _ := strings.Cut(field, ": ")
		b = hop.AppendHeadField(b, name, value)
	}
	if err := hop.EndAnswerHead(b, status, length); err != nil {
		t.Fatal(err)
	}
	return string(b) + body
}

// newBinaryServer returns a server that reads requests with binary heads from links.
func newBinaryServer(t *testing.T, answer func(net.Conn, hop.RequestHead, []byte)) (*linkServer, *transport.Transport) {
	s, tr := newLinkServer(t, answerPlain), forwardtest.NewTransport(t)
	s.binary.Store(true)
	s.awaitLink(t, tr)
	s.setAnswer(func(c net.Conn) {
		h, body, err := receiveBinary(c)
		if err != nil {
			t.Errorf("the request: %v", err)
			return
		}
		answer(c, h, body)
	})
	return s, tr
}

func (s *linkServer) binaryRequest(body string) *transport.Request {
	r := s.request()
	r.Body = []byte(body)
	return r
}

const jsonType = "Content-Type: application/json"

func TestBinaryHeads(t *testing.T) {
	signature := strings.Repeat("s", 300)
	s, tr := newBinaryServer(t, func(c net.Conn, h hop.RequestHead, body []byte) {
		if string(h.Method) != "POST" || string(h.Target) != "/v1/chat/completions" || string(h.Fields.Get(hop.HeaderToken)) != signature || string(h.Fields.Get("x-empty")) != "" {
			t.Errorf("%s %s", h.Method, h.Target)
		}
		_, _ = io.WriteString(c, binaryAnswer(t, 201, int64(len(body)), jsonType+"\nX-Note: some", string(body)))
	})
	for _, size := range []int{10, 1 << 10, 40 << 10} {
		body := `{"a":"` + strings.Repeat("x", size) + `"}`
		r := s.binaryRequest(body)
		r.Sign = func(dst []byte) ([]byte, error) { return append(dst, signature...), nil }
		r.Fields = append(r.Fields, transport.Field{Name: "x-empty"})
		a, err := tr.Do(context.Background(), r, forwardtest.ChatOptions)
		if err != nil {
			t.Fatal(err)
		}
		got, whole := a.Body()
		if a.Status() != 201 || !whole || string(got) != body || a.Header("x-note") != "some" || !a.IsJSON() || a.Length() != int64(len(body)) {
			t.Errorf("%d bytes: status %d, whole %v, %d bytes", size, a.Status(), whole, len(got))
		}
		a.Close()
	}
	invalid := s.binaryRequest("{}")
	invalid.Fields = []transport.Field{{Name: "x-a", Value: "b\x01c"}}
	if _, err := tr.Do(context.Background(), invalid, forwardtest.ChatOptions); err == nil || !strings.Contains(err.Error(), "x-a") {
		t.Errorf("a request with a control character: %v", err)
	}
	failing := s.binaryRequest("{}")
	want := errors.New("no key")
	failing.Sign = func([]byte) ([]byte, error) { return nil, want }
	if _, err := tr.Do(context.Background(), failing, forwardtest.ChatOptions); !errors.Is(err, want) {
		t.Errorf("a request that cannot be signed: %v", err)
	}
}

func TestStreamsWithBinaryHeads(t *testing.T) {
	cut := make(chan bool, 2)
	s, tr := newBinaryServer(t, func(c net.Conn, _ hop.RequestHead, _ []byte) {
		_, _ = io.WriteString(c, binaryAnswer(t, 200, -1, "Content-Type: text/event-stream", "e\r\ndata: {\"a\":1}\n\r\n"))
		if <-cut {
			return
		}
		_, _ = io.WriteString(c, "f\r\n\ndata: [DONE]\n\n\r\n0\r\n\r\n")
	})
	read := func() (string, error) {
		t.Helper()
		a, err := tr.Do(context.Background(), s.binaryRequest(`{}`), forwardtest.ChatOptions)
		if err != nil {
			return "", err
		}
		defer a.Close()
		var all strings.Builder
		for {
			piece, err := a.Next()
			if errors.Is(err, io.EOF) {
				return all.String(), nil
			}
			if err != nil {
				return all.String(), err
			}
			all.Write(piece)
		}
	}
	cut <- false
	if all, err := read(); err != nil || all != "data: {\"a\":1}\n\ndata: [DONE]\n\n" {
		t.Errorf("%q, %v", all, err)
	}
	cut <- true
	if all, err := read(); err == nil {
		t.Errorf("a stream that was cut: %q", all)
	}
}

// An answer with a head that is malformed, or cut, fails as one in text does.
func TestMalformedBinaryAnswers(t *testing.T) {
	whole := binaryAnswer(t, 200, 2, jsonType, "{}")
	for name, answer := range map[string]string{
		"text":                plainAnswer,
		"nothing":             "",
		"a part":              whole[:9],
		"no body":             whole[:len(whole)-2],
		"a wrong kind":        "\x00" + whole[1:],
		"a huge head":         "\x01\xff\xff\xff" + whole[4:],
		"204 with a body":     binaryAnswer(t, 204, 2, jsonType, "{}"),
		"204 with chunks":     binaryAnswer(t, 204, -1, jsonType, "0\r\n\r\n"),
		"a control character": strings.Replace(whole, "application/json", "application\x01json", 1),
		"a wrong field":       strings.Replace(whole, "application/json", "application\njson", 1),
	} {
		s, tr := newBinaryServer(t, func(c net.Conn, _ hop.RequestHead, _ []byte) { _, _ = io.WriteString(c, answer) })
		a, err := tr.Do(context.Background(), s.binaryRequest("{}"), forwardtest.ChatOptions)
		var failed *transport.ExchangeError
		if err == nil {
			a.Close()
		}
		if !errors.As(err, &failed) || failed.Phase == transport.PhaseConnect || failed.Timeout {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An answer with a content coding is no API's, as it is in text.
func TestEncodedBinaryAnswer(t *testing.T) {
	s, tr := newBinaryServer(t, func(c net.Conn, _ hop.RequestHead, _ []byte) {
		_, _ = io.WriteString(c, binaryAnswer(t, 200, 2, jsonType+"\nContent-Encoding: gzip", "{}"))
	})
	a, err := tr.Do(context.Background(), s.binaryRequest("{}"), forwardtest.ChatOptions)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if !a.NotAPI() {
		t.Error("it is an API's")
	}
}

// A head that is too large for a binary one is sent as text, one that must be text is, and a request over a connection of its own always is.
func TestTextInsteadOfABinaryHead(t *testing.T) {
	s, tr := newBinaryServer(t, nil)
	s.setAnswer(func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil || len(r.Header.Get("x-long")) != hop.MaxBinaryHead {
			t.Errorf("over the link: %v", err)
			return
		}
		answerPlain(c)
	})
	r := s.binaryRequest("{}")
	r.Fields = append(r.Fields, transport.Field{Name: "x-long", Value: strings.Repeat("x", hop.MaxBinaryHead)})
	a, err := tr.Do(context.Background(), r, forwardtest.ChatOptions)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	r = s.binaryRequest("{}")
	r.TextHead, r.Fields = true, []transport.Field{{Name: "x-long", Value: strings.Repeat("x", hop.MaxBinaryHead)}}
	if a, err = tr.Do(context.Background(), r, forwardtest.ChatOptions); err != nil {
		t.Fatal(err)
	}
	a.Close()
	alone := forwardtest.NewTransport(t)
	s.setAnswer(answerPlain)
	if a, err = alone.Do(context.Background(), s.binaryRequest("{}"), forwardtest.ChatOptions); err != nil { // it has no link yet
		t.Fatal(err)
	}
	a.Close()
}

// A transport uses connections over links again, for servers that read binary heads and for those that do not.
func TestServersWithAndWithoutBinaryHeads(t *testing.T) {
	read, tr := newBinaryServer(t, func(c net.Conn, _ hop.RequestHead, _ []byte) {
		_, _ = io.WriteString(c, binaryAnswer(t, 200, int64(len(`{"id":"abcd"}`)), jsonType, `{"id":"abcd"}`))
	})
	readNot := newLinkServer(t, answerPlain)
	readNot.ask(t, tr)
	testkit.WaitFor(t, "the second link", func() bool { return tr.LinkStats().Links == 2 })
	for range 5 {
		read.ask(t, tr)
		readNot.ask(t, tr)
	}
	if readNot.overLink.Load() != 5 {
		t.Errorf("%d requests over the link to the server without binary heads", readNot.overLink.Load())
	}
}
