package trust_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/node"
	"colonnade/onebox"
)

// A fleet serves everything over TLS, from the client to the colo.
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
	metrics, err := http.Get("http://" + f.Entry.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer metrics.Body.Close()
	text, _ := io.ReadAll(metrics.Body)
	for _, listener := range []string{"public", "peer"} {
		if want := `colonnade_tls_certificate_expiry_timestamp_seconds{listener="` + listener + `"} 1.`; !strings.Contains(string(text), want) {
			t.Errorf("no metric %s", want)
		}
	}
	page, err := http.Get("http://" + f.Entry.Admin + "/debug/config")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	var said node.ConfigState
	if err := json.NewDecoder(page.Body).Decode(&said); err != nil || len(said.Unreached) != 0 {
		t.Errorf("%v: %+v", err, said)
	}
	for i, listener := range []string{"public", "peer"} {
		if len(said.Certificates) != 2 || said.Certificates[i].Listener != listener || !said.Certificates[i].Expires.After(time.Now()) || !said.Certificates[i].Begins.Before(time.Now()) {
			t.Errorf("certificates: %+v", said.Certificates)
		}
	}
}

// Clients with TLS that leave free what they hold, wherever their request is.
func TestTLSClientsLeave(t *testing.T) {
	t.Parallel()
	const slots = 4
	f := fleettest.StartSecure(t, onebox.Config{Colos: []string{"ams"}, Engine: simengine.Config{Slots: slots, TTFT: time.Millisecond, ITL: time.Second}}, fleettest.LongQueue, nil)
	f.WatchShared(8)
	ams := f.Engine("ams")
	free := func() bool {
		return fleettest.InFlight(ams) == 0 && f.Pool("ams", "demo").Held == 0 && f.Pool("ams", "demo").Queued == 0
	}
	var streams, waiting []*fleettest.SecureConn
	for range slots {
		w := f.BeginChatTLS(fleettest.ChatBody(64, true)) // a minute
		streams = append(streams, w)
		if _, err := w.R.ReadString('{'); err != nil { // the first event
			t.Fatal(err)
		}
	}
	for n := range 2 * slots {
		waiting = append(waiting, f.BeginChatTLS(fleettest.ChatBody(1, n%2 == 0)))
	}
	testkit.WaitFor(t, "the others to wait", func() bool { return f.Pool("ams", "demo").Queued == 2*slots })
	served := ams.Stats().Served
	for n, w := range waiting {
		w.Leave(n)
	}
	testkit.Within(t, 500*time.Millisecond, "those who left the queue are gone", func() bool { return f.Pool("ams", "demo").Queued == 0 })
	for n, w := range streams {
		w.Leave(n)
	}
	testkit.Within(t, 500*time.Millisecond, "the engine is rid of the streams", free)

	f.InjectFault(simengine.FaultStallHead, 0)
	var silent []*fleettest.SecureConn
	for n := range slots {
		silent = append(silent, f.BeginChatTLS(fleettest.ChatBody(1, n%2 == 0)))
	}
	testkit.WaitFor(t, "the engine to have them all", func() bool { return fleettest.InFlight(ams) == slots })
	for n, w := range silent {
		w.Leave(n)
	}
	testkit.Within(t, 500*time.Millisecond, "the engine is rid of those before their first byte", free)
	if n := ams.Stats().Served - served; n != 0 {
		t.Errorf("%d requests were served of clients that had left", n)
	}
}

// A client with TLS that takes nothing of its stream is let go of, and its connection's end waits for nobody.
func TestTLSClientStalls(t *testing.T) {
	t.Parallel()
	f := fleettest.StartSecure(t, onebox.Config{Colos: []string{"ams"}, Engine: fleettest.QuickEngine(1), Stall: 500 * time.Millisecond}, "", nil)
	f.WatchShared(8)
	f.InjectFault(simengine.FaultBigAnswer, 1)
	w := f.BeginChatTLS(fleettest.ChatBody(1, false))
	testkit.WaitFor(t, "the stream to begin", func() bool { return f.Pool("ams", "demo").Held == 1 })
	testkit.Within(t, 2*time.Second, "its permit is free", func() bool { return f.Pool("ams", "demo").Held == 0 && fleettest.InFlight(f.Engine("ams")) == 0 })
	w.Close()
}
