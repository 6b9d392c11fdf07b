package entry

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"colonnade/analytics/metrics"
	"colonnade/forwarding/hop"
	"colonnade/openai"
)

// startWithoutUsage starts an entry with a colo that answers without usage, and a limit of the account that all clients have.
func startWithoutUsage(t *testing.T, limits, answer string) (url string, e *Entry) {
	t.Helper()
	documents := "key: models/m\nrouting: {steps: [{}]}\ncost: {input: 1, cached_input: 0, output: 1, per: 1}\n---\nkey: accounts/open\nlimits: " + limits + "\n"
	documents += colo(t, "ams", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set(hop.HeaderAttempts, "1")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	})
	return startEntryWith(t, Config{Table: tableFunc(tableOf(t, documents))}, t.TempDir())
}

// estimated returns how many answers have counted against limits by an estimate.
func estimated(t *testing.T, e *Entry) (n float64) {
	t.Helper()
	families, err := e.config.Metrics.(*metrics.Registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "colonnade_limits_usage_estimated_total" {
			n += f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return n
}

// An answer without usage counts by the estimate that was taken: its prompt, and its text up to the tokens that the request allows. So an
// engine that reports no usage does not make a budget or a limit of tokens endless.
func TestAnswersWithoutUsageCountByEstimate(t *testing.T) {
	t.Parallel()
	const short, long = `{"choices":[]}`, `{"model":"m","messages":[],"max_tokens":500}`
	f := func(limits, answer, body string, counted float64, statuses ...int) {
		t.Helper()
		url, e := startWithoutUsage(t, limits, answer)
		for n, want := range statuses {
			if got, text := chat(t, url, body); got != want {
				t.Errorf("%s: request %d: %d %.200s, want %d", limits, n, got, text, want)
			}
		}
		if n := estimated(t, e); n != counted {
			t.Errorf("%s: %v answers were counted, want %v", limits, n, counted)
		}
	}
	f("{budget: {month: 5}}", short, request, 1, 200, 429) // the prompt has 6 tokens, by its bytes
	f("{budget: {month: 500}}", `{"choices":["`+strings.Repeat("x", 4000)+`"]}`, long, 1, 200, 429)
	f("{tokens_per_minute: 600}", `{"choices":["`+strings.Repeat("x", 4000)+`"]}`, long, 1, 200, 429)
	f("{tokens_per_minute: 1000}", short, long, 3, 200, 200, 200)
	f("{budget: {month: 5}}", `{"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`, request, 0, 200, 200)
	f("{requests_per_minute: 5}", short, request, 0, 200, 200)
	// A budget counts cached tokens at their own price, and a limit of tokens counts all.
	const cached = `{"usage":{"prompt_tokens":100,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":98}}}`
	f("{budget: {month: 5}}", cached, request, 0, 200, 200, 429)
	f("{tokens_per_minute: 60}", cached, `{"model":"m","messages":[],"max_tokens":1}`, 0, 200, 429)
}

// A prompt that is only tokenized or counted costs no tokens of a limit.
func TestCountingTokensCostsNone(t *testing.T) {
	t.Parallel()
	for api, want := range map[openai.API]float64{openai.Tokenize: 0, openai.CountTokens: 0, openai.Messages: 2} {
		if got := estimatePrompt(api, []byte("12345678")); got != want {
			t.Errorf("%s: %v tokens, want %v", api, got, want)
		}
	}
}
