package trust_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"colonnade/accounts"
	"colonnade/analytics"
	"colonnade/discovery/etcd"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/node"
	"colonnade/onebox"
)

// canary is in everything that must not be kept, followed by where it came from.
const canary = "xqzcanary"

// startLogged runs a fleet that requires the returned key, and records its log at level debug.
func startLogged(t *testing.T, c onebox.Config, documents string) (*fleettest.Fleet, *testkit.SyncBuffer, string) {
	t.Helper()
	key, entry := accounts.NewKey("acme", canary, time.Now(), time.Time{})
	logged := &testkit.SyncBuffer{}
	c.Logger = func(name string) *slog.Logger {
		return slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug})).With("from", name)
	}
	f := fleettest.StartClosed(t, c, strings.ReplaceAll(fleettest.APIKeyDocument(t, entry), canary, "mine")+"\n---\n"+documents)
	f.Key = key
	return f, logged, key
}

// No part of a request is in a log, a metric, a page, an event or a file.
func TestRequestsAreNotKept(t *testing.T) {
	t.Parallel()
	f, logged, key := startLogged(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}, Engines: 1},
		"key: models/demo-audio\ntype: audio\npool: demo\nupstream_name: demo-chat\n")
	f.WatchShared(8)
	in := func(place string) string { return canary + " in " + place }
	word := func(place string) string { return canary + "-" + place }
	send := func(method, path, body string, lines ...string) {
		t.Helper()
		w := wiretest.Dial(t, f.Entry.Address)
		defer w.Close()
		w.Send(method+" "+path+" HTTP/1.1", append([]string{"Host: x", "Authorization: Bearer " + key, "Content-Type: application/json",
			fmt.Sprintf("Content-Length: %d", len(body))}, lines...), body)
		if a := w.Read(); a.Status == 0 {
			t.Errorf("%s %s: no response: %v", method, path, a.Err)
		}
	}
	post := func(body string, lines ...string) {
		t.Helper()
		send("POST", "/v1/chat/completions", body, lines...)
	}
	good := fmt.Sprintf(`{"model":"demo-chat","max_tokens":2,"user":%q,"metadata":{%q:%q},"tools":[{"type":"function","function":{"name":%q}}],`+
		`"messages":[{"role":"user","content":%q}]}`, word("user"), word("name"), in("metadata"), word("tool"), in("a prompt"))
	post(good)
	post(`{"stream":true,` + good[1:])
	for _, header := range []string{"X-Secret", "Cookie", "Api-Key", "User-Agent", "Accept", "Traceparent", "X-Forwarded-For", "X-Stainless-Lang",
		"Openai-Organization", "X-Session-Affinity", "X-Colonnade-Hop", "X-Colonnade-Queue", "X-Colonnade-Queue-Events", "X-Colonnade-Priority", "X-Colonnade-Deadline-Ms",
		"X-Colonnade-Force-Colo", "X-Stainless-Timeout", "Content-Encoding", "Upgrade", word("header-name")} {
		post(good, header+": "+word("header"))
	}
	post(good, "X-Request-Id: "+key)
	post(good, "X-Request-Id: sk-"+canary)
	for _, model := range []string{key, key + "x", "sk-proj-" + canary, in("a model"), "Bearer " + word("model"), "org/" + canary + "0123456789abcdef", strings.Repeat(canary, 20)} {
		post(fmt.Sprintf(`{"model":%q,"messages":[]}`, model))
		escaped := strings.ReplaceAll(model, " ", "%20")
		send("GET", "/v1/models/"+escaped, "")
		send("GET", "/v1/realtime?model="+escaped, "")
	}
	for _, path := range []string{"/v1/" + word("path"), "/" + key, "/v1/chat/completions?key=" + key, "/v1/chat/completions/" + key, "//" + key, "/v1/%zz" + canary} {
		send("POST", path, good)
	}
	for _, body := range []string{
		good[:len(good)-1], good + canary, `{"model":"demo-chat","model":` + good, `"` + in("a string") + `"`, `{"model":"demo-chat",` + canary, `{"model":"demo-chat","Model":"` + canary + `"}`,
		`{"model":"demo-chat","stream":"` + canary + `"}`, `{"model":"demo-chat","previous_response_id":"` + canary + `"}`, "\x00" + canary, `{"model":"demo-chat","x":"` + "\xff" + canary + `"}`,
	} {
		post(body)
	}
	post(good, "Content-Type: text/"+canary)
	for _, head := range []string{"POST /v1/chat/completions HTTP/1.1\r\n" + canary + "\r\n\r\n", canary + " / HTTP/1.1\r\n\r\n", "GET / HTTP/" + canary + "\r\n\r\n", canary + "\r\n\r\n",
		"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: " + canary + "\r\n\r\n", "POST /v1/chat/completions HTTP/1.1\r\nHost: " + canary + "\r\nTransfer-Encoding: chunked\r\n\r\n" + canary + "\r\n"} {
		w := wiretest.Dial(t, f.Entry.Address)
		_, _ = io.WriteString(w, head)
		_ = w.Read()
		w.Close()
	}
	body, contentType := wiretest.MultipartForm("model=demo-audio prompt="+word("form")+" "+word("field")+"=x", 1)
	send("POST", "/v1/audio/transcriptions", strings.Replace(body, "speech.mp3", word("file.mp3"), 1), "Content-Type: "+contentType)
	if a, err := f.Post(context.Background(), "/audio/transcriptions", strings.Replace(body, "speech.mp3", word("file.mp3"), 1), "Content-Type", contentType); err != nil || a.Status != 200 {
		t.Errorf("transcription: %d %v", a.Status, err)
	}
	for _, headers := range [][]string{
		{"Sec-WebSocket-Protocol", "realtime, openai-insecure-api-key." + key + "x"},
		{"Sec-WebSocket-Protocol", "realtime, " + key},
		{"Authorization", "Bearer " + key, "Origin", "https://" + canary},
	} {
		f.ExpectRefused("demo-realtime", map[bool]int{true: 403, false: 401}[len(headers) > 2], headers...)
	}
	finish(t, f, logged)
}

// finish sends one more request, so that all before have their events, and searches for the canary.
func finish(t *testing.T, f *fleettest.Fleet, logged *testkit.SyncBuffer) {
	t.Helper()
	f.Chat(fleettest.ChatBody(1, false), "x-request-id", "the-last-one")
	f.FinalEvent(analytics.KindRequest, "the-last-one")
	f.FinalEvent(analytics.KindInference, "the-last-one")
	search(f, logged, f.Dir, canary)
}

// No part of an engine's response is in a log, a metric, a page, an event or a file, however it fails.
func TestEngineResponsesAreNotKept(t *testing.T) {
	t.Parallel()
	var say func(http.ResponseWriter) // set while no request runs
	own, documents := fleettest.StartStubEngine(t, func(w http.ResponseWriter, _ *http.Request) { say(w) })
	defer own.Close()
	f, logged, _ := startLogged(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}, Engines: 1}, documents+"retry: {errors: 0}\n")
	f.WatchShared(8)
	word := canary + "-word"
	full := fmt.Sprintf(`{"error":{"message":%q,"type":%q,"code":%q,"param":%q,"number":50401,"reason":%q},"object":"error","type":%q}`, word, word, word, word, word, word)
	answer := func(status int, contentType, text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", contentType)
			for _, name := range []string{"X-Colonnade-Verdict", "X-Colonnade-Load", "X-Request-Id", "Retry-After", "Location", "Server", canary} {
				w.Header().Set(name, word)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	raw := func(text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(c, text)
			c.Close()
		}
	}
	first := `data: {"choices":[{"delta":{"content":"` + word + `"}}]}` + "\n\n"
	says := []func(http.ResponseWriter){
		raw("HTTP/1.1 200 " + canary + "\r\nContent-Length: 2\r\n\r\n{}"), raw("HTTP/1.1 " + canary + "\r\n\r\n"), raw(canary), raw("HTTP/1.1 200 OK\r\n" + canary + "\r\n\r\n"),
		raw("HTTP/1.1 200 OK\r\nContent-Length: " + canary + "\r\n\r\n"), raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + canary + "\r\n\r\n"),
		raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + canary + "\r\n"), raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
			fmt.Sprintf("%x\r\n%s\r\n%s\r\n", len(first), first, canary)),
		answer(200, "application/"+canary, word), answer(200, "text/event-stream", first+"data: "+full+"\n\n"), answer(200, "text/event-stream", "data: "+full+"\n\n"),
		answer(200, "text/event-stream", first+"event: "+word+"\ndata: "+word+"\n\n"), answer(200, "text/event-stream", first),
		answer(200, "application/json", `{"model":"`+word+`","usage":{"prompt_tokens":"`+word+`"}}`),
	}
	for _, status := range []int{301, 400, 404, 422, 500, 503} {
		says = append(says, answer(status, "application/json", full), answer(status, "text/html", word))
	}
	good := answer(200, "application/json", "{}")
	for i, s := range says {
		for _, stream := range []bool{false, true} {
			say = s
			before := own.Requests.Load()
			id := fmt.Sprintf("engine-%03d-%v", i, stream)
			f.Chat(fmt.Sprintf(`{"model":"own","stream":%v,"messages":[]}`, stream), "x-request-id", id)
			f.FinalEvent(analytics.KindRequest, id)
			if own.Requests.Load() == before {
				t.Errorf("%s did not reach the engine", id)
			}
			say = good // so that it is up and not full
			testkit.WaitFor(t, "the engine to serve again", func() bool { return f.Chat(fleettest.StubBody).Status == 200 })
		}
	}
	finish(t, f, logged)
}

// No node repeats a key that an operator pastes where its hash belongs, or anywhere else.
func TestKeysInBadDocumentsAreNotRepeated(t *testing.T) {
	t.Parallel()
	f, logged, _ := startLogged(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}, Engines: 1}, "")
	f.WatchShared(8)
	client, err := etcd.Dial([]string{f.Etcd})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	texts := map[string]string{
		"hash":               "keys: [{id: a, sha256: cn_a_" + canary + "}]",
		"list":               "keys: [cn_a_" + canary + "]",
		"scalar":             "keys: cn_a_" + canary,
		"field":              "keys: [{id: a, secret: cn_a_" + canary + "}]",
		"id":                 "keys: [{id: 'cn_a_" + canary + " x', sha256: 00}]",
		"expires":            "keys: [{id: a, sha256: 00, expires: cn_a_" + canary + "}]",
		"key":                "key: cn_a_" + canary,
		"broken":             "keys: [{id: a, sha256: cn_a_" + canary,
		"name":               "cn_a_" + canary + ": 1",
		"weight":             "weight: cn_a_" + canary,
		"priority":           "priority: cn_a_" + canary,
		"models":             "models: ['cn_a_" + canary + " x']",
		"limits":             "limits: {cn_a_" + canary + ": 1}",
		"within":             "weight: 'Bearer sk-" + canary + ", Ann''s'",
		"named":              "'the key sk-" + canary + " of Ann': 1",
		"cn_x_" + canary:     "weight: 0",
		"a/sk-x" + canary:    "x",
		"sk-" + canary + "!": "{}",
	}
	put := func(key, text string) {
		if _, err := client.Put(context.Background(), node.Prefix+key, text); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range texts {
		put("accounts/"+name, text)
	}
	keys := map[string]string{
		"hash": "{account: a, sha256: cn_a_" + canary + "}", "list": "[cn_a_" + canary + "]", "scalar": "cn_a_" + canary, "account": "account: 'cn_a_" + canary + " x'",
		"field": "{account: a, secret: cn_a_" + canary + "}", "expires": "{account: a, sha256: 00, expires: cn_a_" + canary + "}", "cn_x_" + canary: "{}", "sk-" + canary: "{}",
	}
	for id, text := range keys {
		put("keys/"+id, text)
	}
	testkit.WaitFor(t, "the documents to be rejected", func() bool {
		answer, err := f.Client.Get("http://" + f.Entry.Admin + "/metrics")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return strings.Contains(string(text), fmt.Sprintf("colonnade_config_rejected %d\n", len(texts)+len(keys)))
	})
	search(f, logged, filepath.Join(f.Dir, "nodes"), canary)
}
