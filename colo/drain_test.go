package colo

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/forwarding/server"
	"colonnade/internal/testkit"
)

const talkAndChat = lateModel + "---\nkey: models/voice\ntype: realtime\npool: p\n"

func (s *testServer) wantMoved(status int, verdict string) {
	s.t.Helper()
	if status != 503 || !strings.HasPrefix(verdict, "moved;reason=draining;number=50301;retry_after_ms=") {
		s.t.Errorf("answer %d, verdict %q; want that the work has moved", status, verdict)
	}
}

// A draining server serves a request that finds a free slot, as long as requests come; none waits there any more.
func TestDrainServesWhatFindsASlot(t *testing.T) {
	s := startServer(t)
	s.apply(talkAndChat)
	session := s.open("voice")
	moved := make(chan func(), 1)
	go func() {
		status, verdict := s.chat("late")
		moved <- func() { s.wantMoved(status, verdict) }
	}()
	s.until("a request to wait", func() bool { return s.pool("p").Queued == 1 })
	s.Drain()
	(<-moved)()
	s.wantMoved(s.chat("late"))
	session.Close()
	s.until("the slot to be free", func() bool { return s.held() == 0 })
	if status, verdict := s.chat("late"); status != 200 {
		t.Errorf("with a free slot: %d, %q", status, verdict)
	}
	if v := s.refused("voice", toSelf, 503); !strings.HasPrefix(v, "moved;reason=draining") {
		t.Errorf("a session, which would last longer: %q", v)
	}
}

// Once no request has come for a while, new ones get the verdict moved as long as something runs; then the listener closes.
func TestDrainRefusesInTheEnd(t *testing.T) {
	s := startServer(t)
	s.apply(talkAndChat)
	session := s.open("voice")
	s.down = true
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- s.Shutdown(ctx, server.DrainTimings{Notice: patience, Quiet: 50 * time.Millisecond}) }()
	s.until("the pool to drain", func() bool { return s.pool("p").Draining })
	for range 3 {
		time.Sleep(100 * time.Millisecond)
		s.wantMoved(s.chat("late"))
	}
	session.Close()
	if err := <-over; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", s.address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("afterwards: %v", err)
	}
}

func (s *testServer) until(what string, done func() bool) {
	s.t.Helper()
	testkit.WaitFor(s.t, what, done)
}
