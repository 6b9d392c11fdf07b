package entry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/internal/testkit"
)

// captured is a line of a capture.
type captured struct {
	RequestID      string            `json:"request_id"`
	Path           string            `json:"path"`
	RequestHeaders map[string]string `json:"request_headers"`
	RequestBody    string            `json:"request_body"`
	Status         int               `json:"status"`
	ResponseBody   string            `json:"response_body"`
	Unfinished     bool              `json:"unfinished"`
}

// capturesOf waits for n records in a file.
func capturesOf(t *testing.T, path string, n int) (lines []captured) {
	t.Helper()
	testkit.WaitFor(t, "the records", func() bool {
		data, _ := os.ReadFile(path)
		lines = nil
		for text := range bytes.Lines(data[:bytes.LastIndexByte(data, '\n')+1]) { // the last line may be on its way
			var l captured
			if err := json.Unmarshal(text, &l); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			lines = append(lines, l)
		}
		return len(lines) >= n
	})
	return lines
}

// Requests are captured as the client sends them and gets its answers: in one piece, in a stream, with queue events, and refused.
func TestCapture(t *testing.T) {
	t.Parallel()
	const key = "cn_k_THESECRETOFTHEKEY"
	colo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		if bytes.Contains(body, []byte(`"stream":true`)) {
			w.Header().Set(hop.HeaderAttempts, "1")
			w.Header().Set("Content-Type", "text/event-stream")
			if bytes.Contains(body, []byte("long")) {
				for i := range 300 { // enough for the stream to be shared with others
					fmt.Fprintf(w, "data: {\"choices\":[%d]}\n\n", i)
					w.(http.Flusher).Flush()
				}
			}
			serveStream(w)
			return
		}
		w.Header().Set(hop.HeaderAttempts, "1")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":["whole"]}`)
	}))
	defer colo.Close()
	path := filepath.Join(t.TempDir(), "open.jsonl")
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	table := tableOf(t, "key: models/m\n---\nkey: colos/ams\n---\nkey: servers/ams/ams-1\naddress: "+colo.Listener.Addr().String()+
		"\nboot: x\nprotocol: {min: 1, max: "+strconv.Itoa(fleet.Protocol)+"}\n---\nkey: captures/debug\naccount: open\nsink: file:"+path+"\nuntil: "+until.Format(time.RFC3339)+"\n")
	url, e := startEntryWith(t, Config{Table: tableFunc(table), Captures: table.Captures}, t.TempDir())
	testkit.WaitFor(t, "the capture", func() bool { return len(e.Captures()) == 1 })

	ask := func(status int, body string, headers ...string) (answer string) {
		t.Helper()
		got, h, answer := testkit.Post(url+"/v1/chat/completions?api_key="+key, body, append(headers, "Authorization", "Bearer "+key, "Api-Key", key, "X-Api-Key", key)...)
		if got != status || h.Get(hop.HeaderCaptured) != until.Format(time.RFC3339) {
			t.Errorf("%s: %d %s: %v: %s", body, got, h.Get(hop.HeaderCaptured), h, answer)
		}
		return answer
	}
	bodies := []string{`{"model":"m","messages":[]}`, streamed, streamed, `{"model":"none"}`, `{"model":`, strings.Replace(streamed, "[]", `["long"]`, 1)}
	answers := []string{
		ask(200, bodies[0]), ask(200, bodies[1]), ask(200, bodies[2], hop.HeaderQueueEvents, "1"), ask(404, bodies[3]), ask(400, bodies[4]), ask(200, bodies[5]),
	}
	lines := capturesOf(t, path, len(bodies))
	if n := strings.Count(lines[len(lines)-1].ResponseBody, "data:"); n != 302 {
		t.Errorf("%d events of a long stream are captured, want 302", n)
	}
	for i, l := range lines {
		if l.RequestBody != bodies[i] || l.ResponseBody != answers[i] || answers[i] == "" || l.Path != "/v1/chat/completions" || l.Unfinished {
			t.Errorf("request %d: sent %q, got %q; the record is %+v", i, bodies[i], answers[i], l)
		}
		if l.RequestHeaders["content-type"] == "" && l.RequestHeaders["user-agent"] == "" {
			t.Errorf("request %d has the headers %v", i, l.RequestHeaders)
		}
	}
	if data, err := os.ReadFile(path); err != nil || strings.Contains(string(data), "THESECRET") {
		t.Errorf("the capture has the key: %v %s", err, data)
	}
}

// A capture of another account leaves an answer as it is.
func TestCaptureOfAnotherAccount(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "acme.jsonl")
	table := tableOf(t, "key: models/m\n---\nkey: captures/debug\naccount: acme\nsink: file:"+path+"\nuntil: "+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+"\n")
	url, e := startEntryWith(t, Config{Table: tableFunc(table), Captures: table.Captures}, t.TempDir())
	testkit.WaitFor(t, "the capture", func() bool { return len(e.Captures()) == 1 })
	if _, h, _ := testkit.Post(url+"/v1/chat/completions", `{"model":"none"}`); h.Get(hop.HeaderCaptured) != "" {
		t.Errorf("headers %v", h)
	}
	if s := e.Captures()[0]; s.Written+s.Dropped != 0 {
		t.Errorf("the capture is %+v", s)
	}
}
