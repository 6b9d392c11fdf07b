package colo

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
)

// tookOf returns for how long the server says that it had a request whose answer the test has waited for since it began. No answer says
// more than that.
func tookOf(t *testing.T, what string, h http.Header, began time.Time) time.Duration {
	t.Helper()
	elapsed := time.Since(began)
	took, ok := hop.ParseTook(h.Get(hop.HeaderTook))
	if !ok || took > elapsed {
		t.Errorf("%s: the answer says %q after %s", what, h.Get(hop.HeaderTook), elapsed)
	}
	return took
}

// Each answer of a peer listener says for how long the server had the request: of an engine, with a verdict, to another node's question,
// and to a client that is no node.
func TestAnswersSayForHowLong(t *testing.T) {
	q := startQuestioned(t, nil)
	const engineTook = 30 * time.Millisecond
	q.engine(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		time.Sleep(engineTook)
		if strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[]}\n\n")
			w.(http.Flusher).Flush()
			time.Sleep(engineTook)
			_, _ = io.WriteString(w, "data: [DONE]\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	})
	for what, body := range map[string]string{"a whole response": `{"model":"x","messages":[]}`, "a stream": `{"model":"x","stream":true,"messages":[]}`} {
		began := time.Now()
		answer, err := q.send(t.Context(), hopFor("late"), body)
		if err != nil {
			t.Fatal(err)
		}
		if took := tookOf(t, what, answer.Header, began); took < engineTook || answer.StatusCode != 200 {
			t.Errorf("%s, status %d, took %s", what, answer.StatusCode, took)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}

	began := time.Now()
	token := hopFor("gone")
	token.Total = hop.Millis(engineTook)
	answer, err := q.send(t.Context(), token, "{}")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if took := tookOf(t, "a verdict", answer.Header, began); took < engineTook || answer.Header.Get(hop.HeaderVerdict) == "" {
		t.Errorf("the verdict %q took %s", answer.Header.Get(hop.HeaderVerdict), took)
	}

	for what, target := range map[string]string{"a sign of life": hop.PathAlive, "no question": questionPrefix} {
		began := time.Now()
		answer, err := q.signedGet(target)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		tookOf(t, what, answer.Header, began)
	}
	began = time.Now()
	if answer, err = http.Get("http://" + q.address + hop.PathAlive); err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if tookOf(t, "a stranger", answer.Header, began); answer.StatusCode != 403 {
		t.Errorf("a client without a token: %d", answer.StatusCode)
	}
}

// So does the answer to a handshake, which the session writes.
func TestSessionSaysForHowLong(t *testing.T) {
	s := startServer(t)
	s.apply(talkAndChat)
	began := time.Now()
	c, answer, err := s.dial("voice", toSelf)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tookOf(t, "a session", answer.Header, began)
}

// The round trip to a server on the same machine is short, however long the engine takes.
func TestRoundTripIsWithoutTheEngine(t *testing.T) {
	s := startServer(t)
	for range 20 {
		roundTrip, measured, err := s.client("entry-1", nil).Ping(t.Context(), s.server())
		if err != nil || !measured || roundTrip <= 0 {
			t.Fatalf("%s, %v, %v", roundTrip, measured, err)
		}
		if roundTrip < 10*time.Millisecond {
			return
		}
	}
	t.Error("the round trip is never below 10 ms")
}

// A server that rejects this node does not answer it.
func TestPingOfAServerThatRejects(t *testing.T) {
	s := startServer(t)
	c := s.client("entry-1", nil)
	c.Keys = hop.RandomKeys()
	if _, _, err := c.Ping(t.Context(), s.server()); err == nil {
		t.Error("a server with other keys has answered")
	}
	if err := c.Alive(t.Context(), s.server()); err != nil {
		t.Errorf("it lives: %v", err)
	}
	gone := peer.Server{Colo: "ams", Node: "ams-1", Address: "127.0.0.1:1"}
	if _, _, err := c.Ping(t.Context(), gone); err == nil {
		t.Error("a server that does not run has answered")
	}
}
