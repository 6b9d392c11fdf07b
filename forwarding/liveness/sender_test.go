package liveness

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/internal/forwardtest"
	"colonnade/internal/testkit"
	"colonnade/openai"
)

// stoppable is a server that does not even answer questions while it is stopped. It serves requests once answer is closed.
type stoppable struct {
	*httptest.Server
	stopped atomic.Bool
	posts   atomic.Int64
	closed  atomic.Int64 // requests that the other side has ended
	answer  chan struct{}
}

func startStoppable(t *testing.T) *stoppable {
	s := &stoppable{answer: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPost {
			s.serve(w, r)
			return
		}
		if s.stopped.Load() {
			<-r.Context().Done()
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *stoppable) serve(w http.ResponseWriter, r *http.Request) {
	s.posts.Add(1)
	select {
	case <-s.answer:
		w.Header().Set(hop.HeaderAttempts, "1")
		_, _ = io.WriteString(w, "{}")
	case <-r.Context().Done():
		s.closed.Add(1)
	}
}

func (s *stoppable) at() peer.Server {
	return peer.Server{Colo: "ams", Node: "ams-1", Address: strings.TrimPrefix(s.URL, "http://"), Boot: "x"}
}

// startSender starts a sender whose watcher is quick.
func startSender(t *testing.T) *Sender {
	client := &peer.Client{Node: "fra-1", Transport: forwardtest.NewTransport(t), Keys: hop.RandomKeys()}
	s := &Sender{Client: client, Watcher: New(Config{Alive: client.Alive, Timings: Timings{
		Sweep: 5 * time.Millisecond, ProbeAfter: 50 * time.Millisecond, GiveUpAfter: 100 * time.Millisecond, ProbeInterval: 20 * time.Millisecond,
		ProbeTimeout: time.Second,
	}})}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Watcher.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return s
}

func (s *Sender) post(ctx context.Context, to peer.Server, mayLose bool) error {
	answer, err := s.Send(ctx, to, &peer.Request{
		Token: hop.Token{Source: "fra-1", Total: hop.Millis(forwardtest.Patience)}, Route: openai.Route{API: openai.Chat, Path: "/v1/chat/completions"},
		Body: []byte("{}"), Limits: peer.Limits{Connect: forwardtest.Patience, End: time.Now().Add(forwardtest.Patience)},
	}, mayLose)
	if err == nil {
		answer.Close()
	}
	return err
}

// A request that could go elsewhere leaves a server that has stopped, whose connection is closed; any other waits for it. The server counts as
// silent until it gives a sign of life.
func TestRequestLeavesASilentServer(t *testing.T) {
	t.Parallel()
	server, sender := startStoppable(t), startSender(t)
	server.stopped.Store(true)
	stays := make(chan error, 1)
	go func() { stays <- sender.post(t.Context(), server.at(), false) }()
	testkit.WaitFor(t, "the request that stays", func() bool { return server.posts.Load() == 1 })
	err := sender.post(t.Context(), server.at(), true)
	if !errors.Is(err, peer.ErrSilent) || peer.ClassifyFailure(err, time.Now().Add(time.Hour)).Kind != peer.FailureSilent {
		t.Errorf("got %v", err)
	}
	if !sender.Watcher.IsSilent(server.at()) {
		t.Error("the server is not silent")
	}
	testkit.WaitFor(t, "the connection to be closed", func() bool { return server.closed.Load() > 0 })
	server.stopped.Store(false)
	testkit.WaitFor(t, "a sign of life", func() bool { return !sender.Watcher.IsSilent(server.at()) })
	close(server.answer)
	if err := forwardtest.Receive(t, "the answer", stays); err != nil {
		t.Errorf("the request that could not go elsewhere: %v", err)
	}
}

// A request whose context ends is not given up for silence.
func TestRequestOfAClientThatLeaves(t *testing.T) {
	t.Parallel()
	server, sender := startStoppable(t), startSender(t)
	gone := errors.New("gone")
	ctx, leave := context.WithCancelCause(t.Context())
	go func() {
		for server.posts.Load() == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		leave(gone)
	}()
	err := sender.post(ctx, server.at(), true)
	if !errors.Is(err, gone) || peer.ClassifyFailure(err, time.Time{}).Kind != peer.FailureEnded {
		t.Errorf("got %v", err)
	}
}
