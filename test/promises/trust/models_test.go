package trust_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

var ofOneRequest = regexp.MustCompile(`[0-9a-f]{32}`)

// A model that an account may not use looks as one that does not exist, however it is asked for.
func TestForbiddenModelsLookUnknown(t *testing.T) {
	t.Parallel()
	doc, key := fleettest.AccountWithKey("narrow", "models: [demo-chat]")
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, doc+"---\n"+
		"key: models/secret\npool: demo\naliases: [hidden]\nmax_body: 10\nmax_completions: 1\n---\nkey: models/spoken\npool: demo\ntype: realtime\n")
	f.WatchShared(8)
	ask := func(line, model, body string) string {
		t.Helper()
		lines := []string{"Host: fleet", "Authorization: " + key}
		if strings.Contains(line, "realtime") {
			lines = append(lines, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
		}
		if strings.HasPrefix(line, "POST") {
			lines = append(lines, "Content-Type: application/json")
			body = strings.ReplaceAll(body, "MODEL", model)
			lines = append(lines, "Content-Length: "+strconv.Itoa(len(body)))
		}
		w := wiretest.Dial(t, f.Entry.Address)
		defer w.Close()
		w.Send(strings.ReplaceAll(line, "MODEL", model)+" HTTP/1.1", lines, body)
		a := w.Read()
		if a.Status != http.StatusNotFound {
			t.Errorf("%s %s: %d %s", line, model, a.Status, a.Body)
		}
		a.Header.Del("Date")
		return strings.ReplaceAll(ofOneRequest.ReplaceAllString(fmt.Sprint(a.Status, a.Header, a.Body), "ID"), model, "MODEL")
	}
	for _, c := range [][2]string{
		{"POST /v1/chat/completions", `{"model":"MODEL","n":2,"messages":[]}`}, {"POST /v1/embeddings", `{"model":"MODEL","input":"x"}`},
		{"POST /v1/chat/completions", `{"model":"MODEL","stream":true,"lora_path":1,"messages":[]}`}, {"GET /v1/models/MODEL", ""}, {"GET /v1/realtime?model=MODEL", ""},
	} {
		unknown := ask(c[0], "absent", c[1])
		for _, forbidden := range []string{"secret", "hidden", "spoken"} {
			if got := ask(c[0], forbidden, c[1]); got != unknown {
				t.Errorf("%s:\n%s of a model that exists,\n%s of one that does not", c[0], got, unknown)
			}
		}
	}
}

// HEAD is answered like GET, but for the body; the connection serves the next request. Health checks may have a query.
func TestHeadOfModels(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, "")
	f.WatchShared(8)
	w := wiretest.Dial(t, f.Entry.Address)
	defer w.Close()
	for path, status := range map[string]int{
		"/v1/models": 200, "/v1/models?limit=1": 200, "/v1/models/demo-chat": 200, "/v1/models/nothing": 404, "/v1/nothing": 404, "/v1/chat/completions": 405,
		"/health": 200, "/health?x=1": 200, "/health/ready?a=b&c": 200, "/health/live?": 200, "/health/other?": 404, "/healthy": 404,
	} {
		w.Send("GET "+path+" HTTP/1.1", []string{"Host: fleet"}, "")
		get := w.Read()
		w.Send("HEAD "+path+" HTTP/1.1", []string{"Host: fleet"}, "")
		var head wiretest.Response
		if err := w.ReadHead(&head); err != nil {
			t.Fatal(err)
		}
		if get.Status != status || head.Status != status || head.Header.Get("Content-Type") != get.Header.Get("Content-Type") ||
			len(head.Header.Get("Content-Length")) != len(get.Header.Get("Content-Length")) {
			t.Errorf("%s: %d %v, and by HEAD %d %v", path, get.Status, get.Header, head.Status, head.Header)
		}
	}
	if a := f.RawChat(fleettest.ChatBody(1, false)); a.Status != 200 {
		t.Errorf("the next request: %d", a.Status)
	}
}
