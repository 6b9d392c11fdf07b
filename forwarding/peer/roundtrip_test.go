package peer_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/openai"
)

// The round trip is what was measured less what the server says that it took. Nothing is known from a server that says nothing, no number,
// more than was measured, or so much that its clock may be off.
func TestRoundTripOfAnAnswer(t *testing.T) {
	const held = 50 * time.Millisecond
	s := startColoServer(t, "boot")
	c := s.client()
	c.Node = "entry-1"
	for _, f := range []struct {
		says     string // in the header; TOOK is replaced by the time that the server really took
		measured bool
	}{
		{"TOOK", true}, {"0", true}, {"", false}, {"-1", false}, {"soon", false}, {"3600000000", false}, {"2000001", false},
	} {
		s.answer = func(w http.ResponseWriter, _ *http.Request) {
			began := time.Now()
			time.Sleep(held)
			w.Header().Set(hop.HeaderTook, strings.ReplaceAll(f.says, "TOOK", hop.FormatTook(time.Since(began))))
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set(hop.HeaderAttempts, "1")
			_, _ = io.WriteString(w, "{}")
		}
		began := time.Now()
		roundTrip, measured, err := s.measure(c)
		elapsed := time.Since(began)
		if err != nil || measured != f.measured || measured && (roundTrip <= 0 || roundTrip > elapsed) {
			t.Errorf("a server that says %q: %s, %v, %v", f.says, roundTrip, measured, err)
		}
		if f.says == "TOOK" && roundTrip > elapsed-held || f.says == "0" && roundTrip < held {
			t.Errorf("a server that says %q: the round trip is %s of %s", f.says, roundTrip, elapsed)
		}
		pinged, measured, err := c.Ping(t.Context(), s.peer())
		if err != nil || measured != f.measured || (pinged > 0) != measured {
			t.Errorf("asked for a sign of life, one that says %q: %s, %v, %v", f.says, pinged, measured, err)
		}
	}
}

// Neither making the connection nor a second signing counts as a part of the round trip.
func TestRoundTripIsOfOneExchange(t *testing.T) {
	s := startColoServer(t, "first")
	c := s.client()
	const held = 200 * time.Millisecond
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(hop.HeaderTook, "0")
		w.Header().Set(hop.HeaderAttempts, "1")
		_, _ = io.WriteString(w, "{}")
	}
	if _, _, err := s.measure(c); err != nil {
		t.Fatal(err)
	}
	s.restart("second") // and refuses the token slowly
	s.slowly = held
	roundTrip, measured, err := s.measure(c)
	if err != nil || !measured || roundTrip >= held {
		t.Errorf("signed again: %s, %v, %v", roundTrip, measured, err)
	}
}

func (s *coloServer) peer() peer.Server {
	return peer.Server{Colo: "ams", Node: "ams-1", Address: strings.TrimPrefix(s.URL, "http://"), Boot: "first"}
}

// measure sends a request and returns the round trip.
func (s *coloServer) measure(c *peer.Client) (time.Duration, bool, error) {
	answer, err := c.To(s.peer())(s.t.Context(), &peer.Request{
		Token: hop.Token{Source: "entry-1", Total: hop.Millis(time.Minute)}, Route: openai.Route{API: openai.Chat, Path: "/v1/chat/completions"},
		Fields: []transport.Field{{Name: "Content-Type", Value: "application/json"}}, Body: []byte("{}"),
		Limits: peer.Limits{Connect: forwardtest.Patience, End: time.Now().Add(forwardtest.Patience)},
	})
	if err != nil {
		return 0, false, err
	}
	defer answer.Close()
	roundTrip, measured := answer.RoundTrip()
	if answer.HasTook && answer.Took < 0 {
		err = fmt.Errorf("took %s", answer.Took)
	}
	return roundTrip, measured, err
}

func TestLongAnswersSayNothing(t *testing.T) {
	for _, f := range []struct {
		took, elapsed time.Duration
		measured      bool
	}{
		{2 * time.Second, 2*time.Second + 8*time.Millisecond, true}, {2*time.Second + 1, 3 * time.Second, false},
		{time.Second, time.Second, true}, {time.Second, time.Second - 1, false}, {0, 0, false},
	} {
		if got, measured := peer.NewAnswer(f.took, f.elapsed).RoundTrip(); measured != f.measured || measured && got != f.elapsed-f.took {
			t.Errorf("%s of %s: %s, %v", f.took, f.elapsed, got, measured)
		}
	}
}
