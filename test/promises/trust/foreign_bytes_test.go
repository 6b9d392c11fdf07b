package trust_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// With requests of many accounts and sizes, some refused, failed, streamed or cancelled, over reused memory: no body that the
// engine gets and no response has a byte of another request, and each event names the account of its request.
func TestNoForeignByte(t *testing.T) {
	t.Parallel()
	const accounts, clients = 5, 8
	requests := testkit.AtScale(300, 100_000)
	engine := &markedEngine{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			engine.answer(w, r)
		}
	}))
	t.Cleanup(server.Close)
	keys, documents := make([]string, accounts), ""
	for i := range keys {
		key, document := fleettest.NewAccountKey(t, fmt.Sprintf("account%d", i), "weight: 1")
		keys[i], documents = key, documents+document
	}
	f := fleettest.StartClosed(t, onebox.Config{Colos: []string{"ams"}}, documents+fmt.Sprintf(
		"key: endpoints/ams/own\nurl: %s\npool: own\nconcurrency: 16\n---\nkey: models/own\npool: own\nretry: {errors: 0}\ntimeouts: {connect: 20s}\n", server.URL))
	f.Key = keys[0]
	f.WatchShared(8 + 4*clients)

	var next atomic.Int64
	var all sync.WaitGroup
	sent := make([]marked, requests)
	for range clients {
		all.Go(func() {
			for n := int(next.Add(1)) - 1; n < requests && !t.Failed(); n = int(next.Add(1)) - 1 {
				sent[n] = randomMarked(n, accounts)
				if wrong := sendMarked(f, sent[n], keys[sent[n].account]); wrong != "" {
					t.Errorf("%s %s, %d bytes, stream %v: %s", sent[n].id(), sent[n].kind, sent[n].size, sent[n].stream, wrong)
				}
			}
		})
	}
	all.Wait()
	engine.mu.Lock()
	defer engine.mu.Unlock()
	for _, what := range engine.foreign[:min(len(engine.foreign), 5)] {
		t.Errorf("the engine got %s", what)
	}
	if engine.served < requests/2 {
		t.Errorf("the engine has served %d of %d requests", engine.served, requests)
	}
	if !t.Failed() {
		checkMarkedEvents(f, sent)
	}
}

// sendMarked sends a request, and returns what is wrong with its response.
func sendMarked(f *fleettest.Fleet, m marked, key string) string {
	body, contentType := m.body()
	if m.kind == markedHalf {
		return sendHalf(f, m, key, body, contentType)
	}
	ctx, leave := context.WithTimeout(context.Background(), 2*testkit.Timeout)
	defer leave()
	if m.kind == markedSilent {
		time.AfterFunc(3*time.Millisecond, leave)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL()+m.path(), bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	for name, value := range map[string]string{"Content-Type": contentType, "Authorization": "Bearer " + key, "X-Request-Id": m.id()} {
		r.Header.Set(name, value)
	}
	if m.stream {
		r.Header.Set("Accept", "text/event-stream")
	}
	answer, err := f.Client.Do(r)
	if err != nil {
		if m.kind == markedSilent {
			return ""
		}
		return err.Error()
	}
	defer answer.Body.Close()
	if m.leaveAfter >= 0 {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, int64(m.leaveAfter)))
		leave()
		return m.foreign(string(text))
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return m.judge(answer.StatusCode, string(text))
}

// sendHalf leaves in the middle of the body.
func sendHalf(f *fleettest.Fleet, m marked, key string, body []byte, contentType string) string {
	c, err := net.Dial("tcp", f.Entry.Address)
	if err != nil {
		return err.Error()
	}
	_, _ = fmt.Fprintf(c, "POST /v1%s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nAuthorization: Bearer %s\r\nX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n%s",
		m.path(), contentType, key, m.id(), len(body), body[:len(body)/2])
	if m.number%2 == 0 {
		_ = c.(*net.TCPConn).SetLinger(0)
	}
	_ = c.Close()
	return ""
}

// judge returns what is wrong with a response.
func (m marked) judge(status int, text string) string {
	if wrong := m.foreign(text); wrong != "" {
		return wrong
	}
	switch {
	case m.kind == markedRefuse && status == 400 && strings.Contains(text, m.mark()), m.kind == markedFail && status == 502 && !strings.Contains(text, "marked"):
		return ""
	case m.kind == markedRefuse || m.kind == markedFail || status != 200:
		return fmt.Sprintf("answer %d %.300q", status, text)
	}
	if said := m.said(text); said != m.filler() {
		return fmt.Sprintf("%d bytes came back of %d: %.300q", len(said), m.size, text)
	}
	return ""
}

// foreign looks for marks of other requests, and for broken ones of its own.
func (m marked) foreign(text string) string {
	if all, own := strings.Count(text, "marked"), strings.Count(text, fmt.Sprintf("marked%d.%07d", m.account, m.number)); all > own+1 {
		return fmt.Sprintf("%d marks in the response, of which %d are its own", all, own)
	}
	return ""
}

// said returns the text of a response, streamed or not.
func (m marked) said(text string) string {
	if !m.stream {
		var body struct{ Said string }
		_ = json.Unmarshal([]byte(text), &body)
		return body.Said
	}
	var said strings.Builder
	for line := range strings.Lines(text) {
		var event struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if data, ok := strings.CutPrefix(line, "data: {"); ok && json.Unmarshal([]byte("{"+data), &event) == nil && len(event.Choices) > 0 {
			said.WriteString(event.Choices[0].Delta.Content)
		}
	}
	return said.String()
}

// checkMarkedEvents expects each request's account in its events, and one final event of the entry.
func checkMarkedEvents(f *fleettest.Fleet, sent []marked) {
	f.T.Helper()
	accounts := map[string]string{}
	for _, m := range sent {
		accounts[m.id()] = fmt.Sprintf("account%d", m.account)
	}
	finals := func() map[string]int {
		all := map[string]int{}
		for e, err := range journal.ReadDir(f.Entry.DataDir) {
			if err != nil {
				f.T.Fatal(err)
			}
			account, ours := accounts[e.ClientRequestID]
			if ours && e.Account != account {
				f.T.Errorf("an event of %s names %q, want %s", e.ClientRequestID, e.Account, account)
			}
			if ours && e.Kind == analytics.KindRequest && e.Phase == analytics.PhaseEnd {
				all[e.ClientRequestID]++
			}
		}
		return all
	}
	testkit.WaitFor(f.T, "every request to have ended", func() bool {
		missing := 0
		all := finals()
		for _, m := range sent {
			// The head of a request that is left early may not have come.
			if n := all[m.id()]; n == 0 && m.kind != markedHalf && m.kind != markedSilent {
				missing++
			} else if n > 1 {
				f.T.Errorf("%s has %d final events", m.id(), n)
			}
		}
		return missing == 0 || f.T.Failed()
	})
}
