package entry

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/openai"
)

// answering is a colo that answers as an engine does, and keeps the last body.
func answering(last *atomic.Value) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, max(r.ContentLength, 0))
		for n := 0; n < len(body); {
			m, err := r.Body.Read(body[n:])
			if n += m; err != nil && n < len(body) {
				return
			}
		}
		last.Store(string(body))
		w.Header().Set(hop.HeaderAttempts, "1")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{}`))
	}
}

// Prompts that a model's filter names are refused with the entry that matches and without the text, and so are those that cannot be searched;
// prompts that cannot fit into the context are, and all others are served.
func TestPromptChecks(t *testing.T) {
	var last atomic.Value
	last.Store("")
	url := startEntry(t, tableOf(t, "key: models/m\nmax_model_len: 10\nprompt_filter: {words: [other, Top Secret], patterns: ['AKIA[0-9]{4}'], max_text: 1KiB}\n"+
		"---\nkey: models/free\n"+colo(t, "ams", answering(&last))))
	message := func(content string) string {
		return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%s}]}`, content)
	}
	for _, c := range []struct{ body, want string }{
		{message(`"a secret on top"`), ""},
		{message(`"my t\u006fp-SECRET plan"`), `"number":40007`},
		{message(`"the key AKIA1234x"`), "patterns[0]"},
		{message(`[{"type":"text","text":"top"},{"type":"text","text":"secret"}]`), "words[1]"},
		{message(`[{"type":"text","text":"AKI"},{"type":"text","text":"A1234"}]`), "patterns[0]"},
		{message(`"` + strings.Repeat("-", 1100) + `"`), "prompt_filter.max_text"},
		{`{"model":"m","prompt":[1,2]}`, "list of tokens"},
		{`{"model":"m","tokens":[1,2]}`, ""}, // no prompt
		{message(`"` + strings.Repeat("a b ", 20) + `"`), ""},
		{message(`"` + strings.Repeat("a b ", 21) + `"`), `"param":"messages","code":"context_length_exceeded"`},
		{`{"model":"m","prompt":["` + strings.Repeat("a b ", 21) + `"]}`, `"param":"prompt","code":"context_length_exceeded"`},
		{`{"model":"m","input":"` + strings.Repeat("a b ", 21) + `"}`, `"param":"input","code":"context_length_exceeded"`},
		{strings.Replace(message(`"top secret"`), `"m"`, `"free"`, 1), ""},
	} {
		path := "/v1/chat/completions"
		switch {
		case strings.Contains(c.body, "prompt\":["):
			path = "/v1/completions"
		case strings.Contains(c.body, "input\":"):
			path = "/v1/responses"
		case strings.Contains(c.body, "tokens\":["):
			path = "/detokenize"
		}
		status, answer := post(t, url+path, c.body)
		if c.want == "" && status != 200 || c.want != "" && (status != 400 || !strings.Contains(answer, c.want)) {
			t.Errorf("%.120s: %d %s, want %s", c.body, status, answer, c.want)
		}
		if strings.Contains(strings.ToLower(answer), "secret") || strings.Contains(answer, "AKIA") {
			t.Errorf("the answer repeats the text: %s", answer)
		}
	}
}

// A server in this process learns what the body is as long as the client has sent it so, and reads a body with a bound itself.
func TestDescriptionOfTheBody(t *testing.T) {
	raw := []byte(`{"model":"m","messages":[]}`)
	for limit, described := range map[int]bool{0: true, 50: false} {
		c := &call{raw: raw}
		c.route.API = openai.Chat
		c.caller.Account = &fleet.Account{Limits: fleet.Limits{OutputTokens: limit}}
		if err := c.limitOutput(); err != nil {
			t.Fatal(err)
		}
		if (c.described() != nil) != described || described != bytes.Equal(c.raw, raw) {
			t.Errorf("with a limit of %d tokens: described: %v, the body is %s", limit, c.described() != nil, c.raw)
		}
	}
}

// An answer has at most the tokens of its account, whatever the request says.
func TestOutputTokens(t *testing.T) {
	var last atomic.Value
	url := startEntry(t, tableOf(t, "key: models/m\n---\nkey: accounts/open\nlimits: {output_tokens: 50}\n"+colo(t, "ams", answering(&last))))
	for _, c := range []struct{ body, want string }{
		{`{"model":"m","messages":[]}`, `{"model":"m","messages":[],"max_tokens":50}`},
		{`{"model":"m","max_completion_tokens":50}`, `{"model":"m","max_completion_tokens":50}`},
		{`{"model":"m","max_tokens":51}`, ""},
	} {
		last.Store("")
		status, answer := chat(t, url, c.body)
		if got := last.Load().(string); got != c.want || (c.want == "") != (status == 400) {
			t.Errorf("%s: %d %s, the colo got %s, want %s", c.body, status, answer, got, c.want)
		}
		if c.want == "" && (!strings.Contains(answer, "max_tokens") || !strings.Contains(answer, "50")) {
			t.Errorf("the refusal does not name the field and the limit: %s", answer)
		}
	}
}
