package openai_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"colonnade/openai"
)

// endOf returns the end of a text that comes in pieces of the sizes that size returns.
func endOf(text string, size func() int) openai.JSONEnd {
	var s openai.UsageScanner
	for len(text) > 0 {
		n := min(max(size(), 1), len(text))
		s.Write([]byte(text[:n]))
		text = text[n:]
	}
	return s.End()
}

func bytewise() int { return 1 }

// A text that is cut anywhere is open, and only the whole of it is closed.
func TestJSONEnd(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `""`, `[1,{"a":[]},NaN]`, `{"a":"\\","b":"\"}]","c":"\u005d"}`, ` { "choices" : [ { "text" : "a}" } ] , "n" : -Infinity } ` + "\r\n",
	} {
		for cut := range len(text) + 1 {
			want := openai.JSONOpen
			if strings.TrimSpace(text[cut:]) == "" {
				want = openai.JSONClosed
			}
			if got := endOf(text[:cut], bytewise); got != want {
				t.Errorf("%q: end %d, want %d", text[:cut], got, want)
			}
			if _, _, got := openai.ReadBody(openai.Chat, []byte(text[:cut])); got != want {
				t.Errorf("%q at once: end %d, want %d", text[:cut], got, want)
			}
		}
	}
	for _, text := range []string{"12", "null", "Internal Error", "<html>", `{}x`, `{"a":1}{`, `""""`, "}", "[]]", "\ufeff{}", `{} {}`} {
		if got := endOf(text, bytewise); got != openai.JSONUnclear {
			t.Errorf("%q: end %d, want it unclear", text, got)
		}
	}
}

// The end of a text does not depend on its pieces. A valid text is closed, and each part of it is open.
func FuzzJSONEnd(f *testing.F) {
	f.Add(`{"choices":[{"message":{"content":"a\"}]\\"}}],"usage":{"total_tokens":3}} `, uint64(1))
	f.Add(`["\u0022",{},[],-1.5e3,true]`, uint64(2))
	f.Add(`{"a":1}x`, uint64(3))
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		whole := endOf(text, func() int { return len(text) })
		for range 3 {
			if got := endOf(text, func() int { return r.IntN(9) }); got != whole {
				t.Fatalf("%q: end %d in pieces, %d at once", text, got, whole)
			}
		}
		begin := strings.TrimLeft(text, " \t\r\n")
		if !json.Valid([]byte(text)) || !strings.ContainsAny(begin[:1], `{["`) {
			return
		}
		cut := r.IntN(len(text) + 1)
		want := openai.JSONOpen
		if strings.Trim(text[cut:], " \t\r\n") == "" {
			want = openai.JSONClosed
		}
		if got := endOf(text[:cut], func() int { return r.IntN(9) }); got != want || whole != openai.JSONClosed {
			t.Fatalf("%q cut at %d: end %d, want %d; whole %d", text, cut, got, want, whole)
		}
	})
}

func BenchmarkUsageScanner(b *testing.B) {
	vectors := `{"data":[{"embedding":[` + strings.Repeat("-0.0123456789,", 70_000) + `1]}],"usage":{"total_tokens":3}}`
	text := `{"choices":[{"text":"` + strings.Repeat("The quick brown fox\\n", 50_000) + `"}]}`
	for name, body := range map[string]string{"1MB vectors": vectors, "1MB text": text} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				var s openai.UsageScanner
				for at := 0; at < len(body); at += 16 << 10 {
					s.Write([]byte(body[at:min(at+16<<10, len(body))]))
				}
			}
		})
	}
}
