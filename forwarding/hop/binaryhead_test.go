package hop_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"colonnade/forwarding/hop"
)

// requestHead returns an encoded head; fields are names and values in turns.
func requestHead(t testing.TB, method, target string, length int, fields ...string) []byte {
	t.Helper()
	b := hop.BeginRequestHead(nil, method, target, length)
	for i := 0; i < len(fields); i += 2 {
		b = hop.AppendHeadField(b, fields[i], fields[i+1])
	}
	if err := hop.EndRequestHead(b); err != nil {
		t.Fatal(err)
	}
	return b
}

func answerHead(t testing.TB, status int, length int64, fields ...string) []byte {
	t.Helper()
	b := hop.BeginAnswerHead(nil)
	for i := 0; i < len(fields); i += 2 {
		b = hop.AppendHeadField(b, fields[i], fields[i+1])
	}
	if err := hop.EndAnswerHead(b, status, length); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBinaryHeadsOfRequests(t *testing.T) {
	long := strings.Repeat("t", 3000)
	b := requestHead(t, "POST", "/v1/chat/completions?x=1", 1234, hop.HeaderToken, long, "empty", "", "Content-Type", "application/json")
	if size, err := hop.BinaryHeadSize(b[:hop.BinaryHeadStart]); err != nil || size != len(b) || !hop.IsBinaryHead(b[0]) {
		t.Errorf("size %d of %d, %v", size, len(b), err)
	}
	h, err := hop.ParseRequestHead(b)
	if err != nil || string(h.Method) != "POST" || string(h.Target) != "/v1/chat/completions?x=1" || h.Length != 1234 {
		t.Fatalf("%q %q %d %v", h.Method, h.Target, h.Length, err)
	}
	for name, want := range map[string]string{hop.HeaderToken: long, "content-type": "application/json", "empty": "", "absent": "", "": ""} {
		if got := h.Fields.Get(name); string(got) != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}

func TestBinaryHeadsOfAnswers(t *testing.T) {
	for _, length := range []int64{-1, 0, 1 << 40} {
		h, err := hop.ParseAnswerHead(answerHead(t, 429, length, "a", "first", "A", "second"))
		if err != nil || h.Status != 429 || h.Length != length || h.Fields.Get("A") != "first" {
			t.Errorf("%+v, %v", h, err)
		}
	}
}

func TestBinaryHeadsThatAreTooLarge(t *testing.T) {
	fits := hop.MaxBinaryHead - len(requestHead(t, "GET", "/", 0, "name", "x")) - 1 // the length of the value takes a byte more
	for value, want := range map[int]error{fits + 1: nil, fits + 2: hop.ErrBinaryHeadSize} {
		b := hop.AppendHeadField(hop.BeginRequestHead(nil, "GET", "/", 0), "name", strings.Repeat("x", value))
		if err := hop.EndRequestHead(b); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", len(b), err)
		}
		if want != nil {
			continue
		}
		if h, err := hop.ParseRequestHead(b); err != nil || len(h.Fields.Get("name")) != value {
			t.Errorf("%d bytes: %v", len(b), err)
		}
	}
	if _, err := hop.BinaryHeadSize([]byte{0, 0, 0, 1}); !errors.Is(err, hop.ErrBinaryHeadSize) {
		t.Errorf("a head of 64 KiB: %v", err)
	}
}

// A head that is not as it was sent is refused, whatever has changed its lengths, and no value can add a line to a head in text.
func TestMalformedBinaryHeads(t *testing.T) {
	good := requestHead(t, "POST", "/", 1, "name", "value")
	for n := range good {
		if _, err := hop.ParseRequestHead(good[:n]); err == nil && n != len(good)-len("name")-len("value")-2 {
			t.Errorf("the first %d of %d bytes were accepted", n, len(good))
		}
	}
	answer := answerHead(t, 200, 1, "name", "value")
	for n := range answer {
		if _, err := hop.ParseAnswerHead(answer[:n]); err == nil && n != len(answer)-len("name")-len("value")-2 {
			t.Errorf("the first %d of %d bytes were accepted", n, len(answer))
		}
	}
	for _, fields := range [][]string{{"name", "x\r\ny: z"}, {"name", "x\ny"}, {"name", "x\x01"}, {"name", "x\x7f"}, {"", "x"}} {
		if _, err := hop.ParseRequestHead(requestHead(t, "GET", "/", 0, fields...)); err == nil {
			t.Errorf("%q was accepted", fields)
		}
		if _, err := hop.ParseAnswerHead(answerHead(t, 200, 0, fields...)); err == nil {
			t.Errorf("%q was accepted", fields)
		}
	}
	const method = hop.BinaryHeadStart + 4 // where its length stands
	if _, err := hop.ParseRequestHead(append(bytes.Clone(good[:method]), append([]byte{0x84, 0}, good[method+1:]...)...)); err == nil {
		t.Error("a length in two bytes instead of one was accepted")
	}
	for _, status := range []int{0, 102, 199, 600} {
		if _, err := hop.ParseAnswerHead(answerHead(t, status, 0)); err == nil {
			t.Errorf("status %d was accepted", status)
		}
	}
	if _, err := hop.ParseAnswerHead(answerHead(t, 200, -2)); err == nil {
		t.Error("length -2 was accepted")
	}
	if _, err := hop.ParseAnswerHead(good); err == nil {
		t.Error("a head of a request was accepted for one of an answer")
	}
	if _, err := hop.ParseRequestHead(answer); err == nil {
		t.Error("a head of an answer was accepted for one of a request")
	}
}

// A head that is accepted begins as its content is encoded.
func FuzzParseBinaryHead(f *testing.F) {
	f.Add(requestHead(f, "POST", "/v1/chat/completions", 10, hop.HeaderToken, "v3.x", "content-type", "application/json"))
	f.Add(answerHead(f, 200, -1, hop.HeaderAttempts, "1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := hop.ParseRequestHead(b); err == nil {
			_ = h.Fields.Get("absent")
			begin := hop.BeginRequestHead(nil, string(h.Method), string(h.Target), h.Length)
			if !bytes.Equal(begin[hop.BinaryHeadStart:], b[hop.BinaryHeadStart:min(len(begin), len(b))]) {
				t.Errorf("%q was read as %q", b, begin)
			}
		}
		if h, err := hop.ParseAnswerHead(b); err == nil {
			_ = h.Fields.Get("absent")
			if h.Status < 200 || h.Status > 599 || h.Length < -1 {
				t.Errorf("%q was read as %+v", b, h)
			}
		}
	})
}
