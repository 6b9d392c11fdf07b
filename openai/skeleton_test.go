package openai

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"colonnade/internal/testkit"
)

// A text that is written in runs has the skeleton of the same text byte by byte, wherever it is cut, whether it is JSON or not.
func TestSkeletonOfRunsIsThatOfBytes(t *testing.T) {
	t.Parallel()
	seed := testkit.Seed(t)
	random := rand.New(rand.NewPCG(seed, seed))
	parts := []string{`{"a":`, `[`, `]`, `}`, `"`, `\"`, `\u00e9`, `\\`, `,`, `12.5`, ` `, "ä", `"text":"` + string(bytes.Repeat([]byte("x"), 250))}
	for range 2000 {
		var text []byte
		for range random.IntN(60) {
			text = append(text, parts[random.IntN(len(parts))]...)
		}
		if random.IntN(20) == 0 {
			text = append(bytes.Repeat([]byte("1"), maxSkeleton-random.IntN(50)), text...)
		}
		var bytewise, inRuns skeleton
		for _, c := range text {
			if !bytewise.full {
				bytewise.put(c)
			}
		}
		for rest := text; len(rest) > 0; {
			n := 1 + random.IntN(len(rest))
			inRuns.write(rest[:n])
			rest = rest[n:]
		}
		if got, want := inRuns.text(), bytewise.text(); !bytes.Equal(got, want) {
			t.Fatalf("skeleton of %q\n is %q\nwant %q", text, got, want)
		}
	}
}

// Messages of a realtime session with 20 ms of speech, and of what is no JSON.
func BenchmarkSkeleton(b *testing.B) {
	speech := bytes.Repeat([]byte("A"), 1280)
	for name, message := range map[string][]byte{
		"speech": append(append([]byte(`{"type":"input_audio_buffer.append","event_id":"event_1234","audio":"`), speech...), `"}`...),
		"text":   bytes.Repeat([]byte("*"), 1280),
	} {
		b.Run(name, func(b *testing.B) {
			var k skeleton
			b.ReportAllocs()
			b.SetBytes(int64(len(message)))
			for b.Loop() {
				k = skeleton{out: k.out[:0]}
				k.write(message)
			}
		})
	}
}
