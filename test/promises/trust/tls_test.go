package trust_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/node"
	"colonnade/onebox"
)

// A fleet serves every API over TLS, between client and entry and between entry and colo.
func TestTLSEverywhere(t *testing.T) {
	t.Parallel()
	f := fleettest.StartSecure(t, onebox.Config{Engine: fleettest.QuickEngine(2)}, "", nil)
	if !strings.HasPrefix(f.URL(), "https://") {
		t.Fatalf("URL %s", f.URL())
	}
	f.WatchShared(8)
	if a := f.Chat(fleettest.ChatBody(3, false)); a.Status != 200 || a.Err != nil || !strings.Contains(a.Body, `"usage"`) {
		t.Errorf("chat: %+v", a)
	}
	if a := f.Chat(fleettest.ChatBody(3, true)); a.Status != 200 || a.Err != nil || !strings.HasSuffix(a.Body, "data: [DONE]\n\n") {
		t.Errorf("stream: %+v", a)
	}
	a, err := f.Post(t.Context(), "/embeddings", `{"model":"demo-embed","input":"`+strings.Repeat("words ", 50000)+`"}`)
	if err != nil || a.Status != 200 || !strings.Contains(a.Body, `"embedding"`) {
		t.Errorf("embeddings: %v, %.200v", err, a)
	}
	s := session(f)
	s.Say(`{"type":"response.create"}`)
	s.Hear("response.done")
	s.HangUp(4001, "enough")
	s.ExpectClose(4001, "")
	request, inference := f.LastEvents(s.Header.Get("x-request-id"))
	if request.Outcome != analytics.OutcomeCompleted || inference.Outcome != analytics.OutcomeCompleted || inference.Reason != "close_4001" {
		t.Errorf("events: %+v, %+v", request, inference)
	}
	s.Close()
	metrics := string(f.Page(f.Entry.Admin, "/metrics"))
	for _, listener := range []string{"public", "peer"} {
		if want := `colonnade_tls_certificate_expiry_timestamp_seconds{listener="` + listener + `"} 1.`; !strings.Contains(metrics, want) {
			t.Errorf("no metric %s", want)
		}
	}
	var config node.ConfigState
	if err := json.Unmarshal(f.Page(f.Entry.Admin, "/debug/config"), &config); err != nil || len(config.Unresponsive) != 0 {
		t.Errorf("%v: %+v", err, config)
	}
	for i, listener := range []string{"public", "peer"} {
		if len(config.Certificates) != 2 || config.Certificates[i].Listener != listener || !config.Certificates[i].Expires.After(time.Now()) || !config.Certificates[i].Begins.Before(time.Now()) {
			t.Errorf("certificates: %+v", config.Certificates)
		}
	}
}
