package durability_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// The counts of words, which are tokens, in the prompts and responses of these tests.
const (
	promptWords = 4
	cachedWords = 2
	saidWords   = 8
	partWords   = 3 // before a fault in mid-stream
)

// pricedDocuments are models with a price: 0.5 a prompt token, 2 a completion token.
const pricedDocuments = `
key: models/priced
pool: demo
upstream_name: demo-chat
beta: true
timeouts: {idle: 400ms}
cost: {unit: neurons, input: 5, output: 20, per: 10}
---
key: models/patient
pool: demo
upstream_name: demo-chat
cost: {unit: neurons, input: 5, output: 20, per: 10}
---
key: models/spoken
type: realtime
pool: demo
upstream_name: demo-realtime
cost: {unit: neurons, input: 5, output: 20, per: 10}
---
key: models/hasty
pool: demo
upstream_name: demo-chat
timeouts: {first_byte: 1s, total: 3s}
`

func usageFleet(t *testing.T, c onebox.Config) *fleettest.Fleet {
	t.Helper()
	c.Colos = []string{"ams"}
	c.Engine = simengine.Config{Slots: 8, TTFT: time.Millisecond, ITL: -1, Cached: cachedWords}
	return fleettest.Start(t, c, pricedDocuments)
}

// billed is the usage in an event.
type billed struct {
	prompt, completion, cached, estimated int
	seconds, cost                         float64
}

func billOf(e analytics.Event) billed {
	return billed{e.PromptTokens, e.CompletionTokens, e.CachedTokens, e.TokensEstimated, e.AudioSeconds, e.Cost}
}

// tokens returns the bill for tokens that the engine has counted.
func tokens(prompt, completion, cached int) billed {
	return billed{prompt: prompt, completion: completion, cached: cached, cost: 0.5*float64(prompt) + 2*float64(completion)}
}

// estimate returns the bill for so many deltas of a response without usage.
func estimate(pieces int) billed { return billed{estimated: pieces, cost: 2 * float64(pieces)} }

// usageCase is one request with its bill.
type usageCase struct {
	name, path, body string
	form             bool
	stream           bool
	want             billed
	contains         string // in the response
	lacks            string
}

const fourWords = "hello there my friend"

func usageCases() []usageCase {
	text := `"messages":[{"role":"user","content":"` + fourWords + `"}]`
	inputs := `"` + fourWords + strings.Repeat(`","`+fourWords, 24) + `"`
	all, none := tokens(promptWords, saidWords, cachedWords), billed{}
	long := "echo: " + strings.Repeat("word ", 20_000)
	return []usageCase{
		{name: "chat", path: "chat/completions", body: text + `,"max_tokens":8`, want: all, contains: `"usage":{`},
		{name: "chat, long", path: "chat/completions", body: `"messages":[{"role":"user","content":"` + long + `"}]`, want: tokens(20_001, 20_000, 2), contains: `"usage":{`},
		{name: "chat, streamed", path: "chat/completions", body: text + `,"max_tokens":8`, stream: true, want: all, lacks: `"usage"`},
		{name: "chat, streamed, usage wanted", path: "chat/completions", body: text + `,"max_tokens":8,"stream_options":{"include_usage":true}`, stream: true,
			want: all, contains: `"usage":{`},
		{name: "chat, streamed, usage not wanted", path: "chat/completions", body: text + `,"max_tokens":8,"stream_options":{"include_usage":false}`, stream: true,
			want: all, lacks: `"usage"`},
		{name: "completions", path: "completions", body: `"prompt":"` + fourWords + `","max_tokens":8`, want: all},
		{name: "completions, streamed", path: "completions", body: `"prompt":"` + fourWords + `","max_tokens":8`, stream: true, want: all, lacks: `"usage"`},
		{name: "responses", path: "responses", body: `"input":"` + fourWords + `","max_output_tokens":8`, want: all},
		{name: "responses, streamed", path: "responses", body: `"input":"` + fourWords + `","max_output_tokens":8`, stream: true, want: all, contains: `"usage":{`},
		{name: "embeddings", path: "embeddings", body: `"input":"` + fourWords + `"`, want: tokens(promptWords, 0, 2)},
		{name: "embeddings, long", path: "embeddings", body: `"input":[` + inputs + `],"dimensions":1024`, want: tokens(25*promptWords, 0, 2)},
		{name: "rerank", path: "rerank", body: `"query":"` + fourWords + `","documents":["a","b"]`, want: tokens(promptWords, 0, 2)},
		{name: "image", path: "images/generations", body: `"prompt":"` + fourWords + `"`, want: tokens(promptWords, 1, 2)},
		{name: "image, streamed", path: "images/generations", body: `"prompt":"` + fourWords + `"`, stream: true, want: tokens(promptWords, 1, 2)},
		{name: "image, edited", path: "images/edits", form: true, body: "prompt=draw", want: tokens(1+5, 1, 2)},
		{name: "image, varied", path: "images/variations", form: true, body: "size=1x1", want: tokens(5, 1, 2)},
		{name: "transcription", path: "audio/transcriptions", form: true, body: "response_format=json", want: tokens(5, 64, 0)},
		{name: "transcription, by time", path: "audio/transcriptions", form: true, body: "response_format=verbose_json", want: billed{seconds: 5}},
		{name: "transcription, as text", path: "audio/transcriptions", form: true, body: "response_format=text", want: none},
		{name: "transcription, streamed", path: "audio/transcriptions", form: true, stream: true, want: tokens(5, 64, 0)},
		{name: "translation", path: "audio/translations", form: true, want: tokens(5, 64, 0)},
		{name: "speech", path: "audio/speech", body: `"input":"` + fourWords + `"`, want: none},
		{name: "speech, long", path: "audio/speech", body: `"input":"` + fourWords + `","bytes":300000`, want: none},
		{name: "speech, as events", path: "audio/speech", body: `"input":"` + fourWords + `","stream_format":"sse"`, want: tokens(promptWords, 64, 0)},
	}
}

// send posts the case's request with an x-request-id, and reads the response.
func send(f *fleettest.Fleet, c usageCase, id string) wiretest.Response {
	f.T.Helper()
	body, contentType := fmt.Sprintf(`{"model":"priced","stream":%v,%s}`, c.stream, c.body), "application/json"
	if c.form {
		fields := "model=priced " + c.body
		if c.stream {
			fields += " stream=true"
		}
		body, contentType = wiretest.MultipartForm(fields, 5)
	}
	a, err := f.Post(context.Background(), "/"+c.path, body, "Content-Type", contentType, "x-request-id", id)
	if err != nil {
		f.T.Fatal(err)
	}
	return a
}

// For every API, streamed or not, the inference event has the usage that the engine counted, and the request event has none.
func TestUsageOfEveryAPI(t *testing.T) {
	t.Parallel()
	f := usageFleet(t, onebox.Config{Engines: 1})
	f.WatchShared(8)
	for i, c := range usageCases() {
		t.Run(c.name, func(t *testing.T) {
			id := fmt.Sprintf("usage-%04d", i)
			a := send(f, c, id)
			if a.Status != 200 || a.Err != nil || !strings.Contains(a.Body, c.contains) || c.lacks != "" && strings.Contains(a.Body, c.lacks) {
				t.Errorf("answer %d, %v: …%.300q", a.Status, a.Err, a.Body[max(0, len(a.Body)-300):])
			}
			e := f.FinalEvent(analytics.KindInference, id)
			if got := billOf(e); got != c.want {
				t.Errorf("bill %+v, want %+v", got, c.want)
			}
			if unit := e.CostUnit; (unit == "neurons") != (c.want != billed{}) {
				t.Errorf("cost in %q", unit)
			}
			checkEvents(f.In(t), e, f.FinalEvent(analytics.KindRequest, id), c, len(a.Body))
		})
	}
}

// checkEvents checks the events of a request that was served.
func checkEvents(f *fleettest.Fleet, inference, request analytics.Event, c usageCase, bytes int) {
	f.T.Helper()
	streamed := c.stream || strings.Contains(c.body, `"sse"`)
	for _, e := range []analytics.Event{inference, request} {
		if e.Outcome != analytics.OutcomeCompleted || e.Status != 200 || e.Partial || e.Code != "" || e.Reason != "" || e.Attempts != 1 ||
			e.Account != "open" || e.Model != "priced" || e.Pool != "demo" || e.ColoID != "ams" || e.SourceColoID != f.Entry.Node ||
			!slices.Equal(e.ColoPath, []string{"ams/ams-1"}) || !e.Beta || e.Streamed != streamed || e.WebSocket || e.ExternalEndpoint || e.QueuedInColo ||
			e.LocalQueueSize != 0 || e.QueuingTime != 0 || e.BytesIn == 0 || e.MessagesIn+e.MessagesOut != 0 ||
			e.TimeToFirstToken <= 0 || e.RequestTime < e.TimeToFirstToken || e.RequestID == "" || e.Time.IsZero() {
			f.T.Errorf("%s event %+v", e.Kind, e)
		}
	}
	if inference.Node != "ams-1" || inference.Endpoint != "sim-1" || inference.Engine != "openai" || inference.InferenceTime <= 0 || int(inference.BytesOut) != bytes {
		f.T.Errorf("inference event %+v, %d bytes were sent", inference, bytes)
	}
	if request.Node != f.Entry.Node || request.Endpoint != "" || int(request.BytesOut) != bytes || request.RequestID != inference.RequestID || (billOf(request) != billed{}) {
		f.T.Errorf("request event %+v, %d bytes were sent", request, bytes)
	}
}

// An endpoint with `usage: leave` is not asked for usage, which is estimated unless the client asks.
func TestUsageLeave(t *testing.T) {
	f := usageFleet(t, onebox.Config{Engines: 2})
	f.ApplyAndWait(fmt.Sprintf("key: endpoints/ams/sim-2\nurl: %s\npool: left\nusage: leave\nexternal: true\n---\n"+
		"key: models/left\npool: left\nupstream_name: demo-chat\ncost: {unit: neurons, input: 5, output: 20, per: 10}\n", f.Engines[1].URL), func() bool {
		return f.Chat(`{"model":"left","messages":[],"max_tokens":1}`).Status == 200
	})
	f.Watch(8)
	ask := func(id, options string, want billed) {
		t.Helper()
		a := f.Chat(`{"model":"left","stream":true,"max_tokens":8,`+options+`"messages":[{"role":"user","content":"`+fourWords+`"}]}`, "x-request-id", id)
		if strings.Contains(a.Body, `"usage"`) != (options != "") || !strings.HasSuffix(a.Body, "[DONE]\n\n") {
			t.Errorf("%s: answer %.300q", id, a.Body)
		}
		if e := f.FinalEvent(analytics.KindInference, id); billOf(e) != want || e.Partial || !e.ExternalEndpoint {
			t.Errorf("%s: %+v, want %+v", id, e, want)
		}
	}
	ask("left-alone", "", estimate(saidWords))
	ask("left-asked", `"stream_options":{"include_usage":true},`, tokens(promptWords, saidWords, cachedWords))
}
