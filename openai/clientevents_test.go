package openai_test

import (
	"strings"
	"testing"

	"colonnade/openai"
)

func TestClientEventsNameOnlyAllowedModels(t *testing.T) {
	events := openai.ClientEvents{Models: []string{"voice", "org/voice"}}
	f := func(message string, asText, asBinary bool) {
		t.Helper()
		for _, size := range []int{1, 7, len(message)} {
			for isText, want := range map[bool]bool{true: asText, false: asBinary} {
				for rest := message; rest != ""; rest = rest[min(size, len(rest)):] {
					events.Write([]byte(rest[:min(size, len(rest))]))
				}
				if got := events.EndMessage(isText); got != want {
					t.Errorf("%.80s (text: %v) in pieces of %d: %v", message, isText, size, got)
				}
			}
		}
	}
	for _, message := range []string{
		`{"type":"session.update","model":"voice"}`, `{"model":"org\/voice"}`, `{"model":null}`, `{"session":{"model":"v\u006fice"}}`, `{"session":null}`,
		`{"session":{"input_audio_transcription":{"model":"whisper-1"}}}`, `{"item":{"model":"other"}}`, `[{"model":"other"}]`, `"model"`, "x",
		`{"type":"input_audio_buffer.append","audio":"` + strings.Repeat("model", 10<<10) + `"}`, "RIFF{", `{}`,
		`{"session":{"tools":[` + strings.Repeat(`{"name":"f","parameters":{}},`, 2000) + `{}]}}`,
	} {
		f(message, true, true)
	}
	for _, message := range []string{
		`{"type":"session.update","model":"other"}`, ` {"model":"other"}`, `{"m\u006fdel":"other"}`, `{"MODEL":"other"}`, `{"model":"voice","model":"other"}`,
		`{"model":"other","model":"voice"}`, `{"session":{"model":"other"}}`, `{"session":{"model":"other"},"session":{}}`, `{"model":["voice"]}`, `{"model\u0000":"voice"}`, `{"model":""}`,
		`{"x":"` + strings.Repeat("y", 100<<10) + `","model":"other"}`, `{"x":[` + strings.Repeat("1,", 100<<10) + `1],"model":"other"}`,
		`{"model":"voice` + strings.Repeat("e", 1000) + `"}`,
	} {
		f(message, false, false)
	}
	for _, message := range []string{ // some parsers take most of these
		`{"x":NaN,"model":"other"}`, `{"x":` + strings.Repeat("{\"y\":", 100) + "1" + strings.Repeat("}", 100) + `,"model":"other"}`, `{"model":"voice"`, `{"model":"voice"}}`,
		`{` + strings.Repeat(" ", 32<<10) + `"model":"other"}`,
	} {
		f(message, false, false)
	}
	f("{\x00\x01\xffsound\x02", false, true)
	f(strings.Repeat("\x00\x01\xff", 10<<10), true, true)
	f(strings.Repeat(" ", 32<<10)+`{"model":"other"}`, false, false)
}
