package entry

import (
	"bufio"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
)

// askForEvents asks for queue events.
func askForEvents(t *testing.T, url, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(hop.HeaderQueueEvents, "1")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// follow asks for queue events, and reads all that comes.
func follow(t *testing.T, url, body string) (text string, err error) {
	t.Helper()
	answer := askForEvents(t, url, body)
	defer answer.Body.Close()
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("answer %d %v", answer.StatusCode, answer.Header)
	}
	all, err := io.ReadAll(answer.Body)
	return string(all), err
}

const streamed = `{"model":"m","stream":true,"messages":[]}`

// says writes interim answers as a colo does.
func says(w http.ResponseWriter, times int, progress string) {
	w.Header().Set(hop.HeaderProgress, progress)
	for range times {
		w.WriteHeader(http.StatusProcessing)
	}
	w.Header().Del(hop.HeaderProgress)
}

func serveStream(w http.ResponseWriter) {
	w.Header().Set(hop.HeaderAttempts, "1")
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "data: {\"choices\":[]}\n\ndata: [DONE]\n\n")
}

const served = "data: {\"choices\":[]}\n\ndata: [DONE]\n\n"

// Whatever a colo says before its answer, a client reads no more than it is to read, and its request goes on.
func TestColosThatSayTooMuch(t *testing.T) {
	const model = "key: models/m\nrouting: {steps: [{colos: [ams]}, {colos: [fra]}]}\n"
	for name, c := range map[string]struct {
		times    int
		progress string
		want     string
	}{
		"a word":     {1, "position=2;expected_ms=9", ": queue position=2 expected_ms=9\n\n" + served},
		"words":      {5, "position=2", ": queue position=2\n\n" + served},
		"a flood":    {5000, "position=2", ": queue position=2\n\n" + served},
		"nonsense":   {1, "position=2 3", served},
		"a long one": {1, "position=2;x=" + strings.Repeat("x", 4<<10), served},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var asked []bool
			speak := func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked = append(asked, wantsProgress(t, r))
				mu.Unlock()
				says(w, c.times, c.progress)
				serveStream(w)
			}
			serve := func(w http.ResponseWriter, _ *http.Request) { serveStream(w) }
			url := startEntry(t, tableOf(t, model+colo(t, "ams", speak)+colo(t, "fra", serve)))
			if text, err := follow(t, url, streamed); err != nil || text != c.want {
				t.Errorf("the client read %q, %v; want %q", text, err, c.want)
			}
			if status, text := chat(t, url, streamed); status != 200 || text != served {
				t.Errorf("one who has not asked read %d %q", status, text)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(asked) != 2 || !asked[0] || asked[1] {
				t.Errorf("the colo was asked %v", asked)
			}
		})
	}
}

// A progress that comes too soon after the one before reaches the client later, while the colo is silent.
func TestProgressInASilence(t *testing.T) {
	reported := make(chan struct{})
	url := startEntry(t, tableOf(t, "key: models/m\n"+colo(t, "ams", func(w http.ResponseWriter, _ *http.Request) {
		says(w, 1, "position=2")
		says(w, 1, "position=1")
		select {
		case <-reported:
		case <-time.After(10 * time.Second):
			t.Error("the client is not reported what the colo has said last")
		}
		serveStream(w)
	})))
	r, err := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", strings.NewReader(streamed))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(hop.HeaderQueueEvents, "1")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	br := bufio.NewReader(answer.Body)
	for _, want := range []string{": queue position=2\n", "\n", ": queue position=1\n", "\n"} {
		if line, err := br.ReadString('\n'); err != nil || line != want {
			t.Fatalf("the client read %q, %v; want %q", line, err, want)
		}
	}
	close(reported)
	if rest, err := io.ReadAll(br); err != nil || string(rest) != served {
		t.Errorf("then the client read %q, %v", rest, err)
	}
}

// wantsProgress reads a hop token without verifying it.
func wantsProgress(t *testing.T, r *http.Request) bool {
	_, payload, _ := strings.Cut(r.Header.Get(hop.HeaderToken), ".")
	payload, _, _ = strings.Cut(payload, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		t.Error(err)
	}
	return strings.Contains(string(text), `"ev":true`)
}

// Where there is no colo to wait in, the refusal is a plain one.
func TestNowhereToWait(t *testing.T) {
	url := startEntry(t, tableOf(t, "key: models/m\n"))
	answer := askForEvents(t, url, streamed)
	defer answer.Body.Close()
	if answer.StatusCode != 503 || answer.Header.Get("Content-Type") != "application/json" {
		t.Errorf("answer %d %v", answer.StatusCode, answer.Header)
	}
}

// An answer that is no stream cannot be read by a client that has one.
func TestAnswerThatIsNoStream(t *testing.T) {
	for body, contentType := range map[string]string{
		`{"choices":[]}`: "application/json", strings.Repeat(`[1]`, 100<<10): "application/json", "audio": "audio/mpeg",
	} {
		url := startEntry(t, tableOf(t, "key: models/m\n"+colo(t, "ams", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(hop.HeaderAttempts, "1")
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, body)
		})))
		text, err := follow(t, url, streamed)
		if err == nil || !strings.HasPrefix(text, `data: {"error":{`) || !strings.Contains(text, `"reason":"not_a_stream"`) {
			t.Errorf("%s: the client read %.200q, %v", contentType, text, err)
		}
	}
}

// A panic while a client reads comments costs its request: the client gets an error event, and there is one final event.
func TestPanicWhileWaiting(t *testing.T) {
	const nonsense = "colo answered without a verdict"
	for _, over := range [][]string{{nonsense}, {nonsense, "handler panicked"}} {
		table := tableOf(t, "key: models/m\n"+colo(t, "ams", func(w http.ResponseWriter, _ *http.Request) {
			says(w, 1, "position=1")
			_, _ = io.WriteString(w, "nonsense")
		}))
		events := t.TempDir()
		url, e := startEntryWith(t, Config{
			Logger: slog.New(trap{slog.DiscardHandler, over}), Table: func() *fleet.Table { return table },
		}, events)
		text, err := follow(t, url, streamed)
		if err == nil || !strings.HasPrefix(text, ": queue position=1\n\n") || strings.Contains(text, `"number":50000`) != (len(over) == 1) {
			t.Errorf("the client read %q, %v", text, err)
		}
		survived(t, e, events, 500)
	}
}
