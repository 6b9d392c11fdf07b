package realtime_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/realtime"
	"colonnade/internal/wiretest"
)

// heard is what came from a session, reassembled from its frames.
type heard struct {
	messages []wiretest.Frame // complete ones
	pongs    []string
	close    string // its payload
	closed   bool
	kind     byte // of the message that has begun; 0 = none
	part     strings.Builder
}

// hear takes one frame.
func (h *heard) hear(f wiretest.Frame) error {
	switch f.Head &^ wiretest.FinBit {
	case wiretest.OpPong:
		h.pongs = append(h.pongs, f.Payload)
	case wiretest.OpPing: // these sessions end before they must answer
	case wiretest.OpClose:
		h.close, h.closed = f.Payload, true
	case wiretest.OpText, wiretest.OpBinary:
		if h.kind != 0 {
			return errors.New("a message began within another")
		}
		h.kind = f.Head | wiretest.FinBit
		fallthrough
	case wiretest.OpContinuation:
		if h.kind == 0 {
			return errors.New("a continuation without a first fragment")
		}
		h.part.WriteString(f.Payload)
		if f.Head&wiretest.FinBit != 0 {
			h.messages = append(h.messages, wiretest.RawFrame(h.kind, h.part.String()))
			h.kind = 0
			h.part.Reset()
		}
	default:
		return fmt.Errorf("a frame with head %#x", f.Head)
	}
	return nil
}

// frameCase is what a client sends and what must come back.
type frameCase struct {
	send  []wiretest.Frame
	raw   []byte           // sent after that
	chop  int              // bytes that are written at once; 0 = all
	echo  []wiretest.Frame // messages that come back; those on their way when a session ends may be lost
	pongs []string         // likewise
	code  int              // of the close frame that ends it; 0 = none: the client closes once everything has come back
	none  bool             // the close frame has no code
}

// echoRelay is a tunnel to a session whose engine echoes.
type echoRelay struct {
	t       testing.TB
	address string
}

func newEchoRelay(t testing.TB) *echoRelay {
	t.Helper()
	engine, engineEnds := wsEngine(t, echo)
	session, sessionEnds, _ := sessionServer(t, engine, realtime.SessionLimits{})
	tunnel, tunnelEnds, _ := tunnelServer(t, session)
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		for {
			select {
			case <-engineEnds:
			case <-sessionEnds:
			case <-tunnelEnds:
			case <-done:
				return
			}
		}
	}()
	return &echoRelay{t, tunnel}
}

// lingers is the shortest time for which a relay waits at the end of a session: a machine that is slower may lose a close
// frame.
const lingers = 50 * time.Millisecond

// exchange runs one case, and again if the machine was too slow for it.
func (r *echoRelay) exchange(name string, c frameCase) {
	r.t.Helper()
	for attempt := 1; ; attempt++ {
		began := time.Now()
		problems := r.exchangeOnce(c)
		if len(problems) == 0 {
			return
		}
		if attempt == 3 || time.Since(began) < lingers {
			for _, p := range problems {
				r.t.Errorf("%s: %s", name, p)
			}
			return
		}
	}
}

func (r *echoRelay) exchangeOnce(c frameCase) (problems []string) {
	w := wiretest.Handshake(r.t, r.address, "/v1/realtime", "Sec-WebSocket-Extensions: permessage-deflate")
	defer w.Close()
	var all []byte
	for _, f := range c.send {
		all = append(all, f.Masked()...)
	}
	all = append(all, c.raw...)
	if c.chop == 0 {
		c.chop = len(all)
	}
	go func() {
		for piece := range slices.Chunk(all, c.chop) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}()
	var h heard
	ends := c.code != 0 || c.none // by what is sent
	closed := ends
	for !h.closed {
		if !closed && len(h.messages) >= len(c.echo) && len(h.pongs) >= len(c.pongs) {
			closed, c.code = true, 1000
			_, _ = w.Write(wiretest.CloseFrame(1000, "").Masked())
		}
		f, err := wiretest.ReadFrame(w.R)
		if err == nil {
			err = h.hear(f)
		}
		if err != nil {
			return []string{fmt.Sprintf("%v, after %d messages and %d pongs", err, len(h.messages), len(h.pongs))}
		}
	}
	if ends {
		c.echo, c.pongs = c.echo[:min(len(h.messages), len(c.echo))], c.pongs[:min(len(h.pongs), len(c.pongs))]
	}
	problems = h.compare(c)
	if rest, err := io.ReadAll(w.R); len(rest) > 0 || err != nil && !isReset(err) {
		problems = append(problems, fmt.Sprintf("after the close frame came %d bytes, %v", len(rest), err))
	}
	return problems
}

// isReset reports whether an error may follow a close frame for a client that still sends.
func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && !op.Timeout()
}

// compare compares what came with what a case wants.
func (h *heard) compare(c frameCase) (problems []string) {
	code := 0
	if len(h.close) >= 2 {
		code = int(binary.BigEndian.Uint16([]byte(h.close)))
	}
	if code != c.code {
		problems = append(problems, fmt.Sprintf("closed with %d %q, want %d", code, h.close, c.code))
	}
	for _, sent := range c.send { // a code comes back with its reason
		if sent.Head == wiretest.FinBit|wiretest.OpClose && strings.HasPrefix(sent.Payload, wiretest.CloseFrame(c.code, "").Payload) && h.close != sent.Payload {
			problems = append(problems, fmt.Sprintf("the close frame %q came back as %q", sent.Payload, h.close))
		}
	}
	if !slices.Equal(h.messages, c.echo) {
		problems = append(problems, fmt.Sprintf("came back %s, want %s", summary(h.messages), summary(c.echo)))
	}
	if !slices.Equal(h.pongs, c.pongs) {
		problems = append(problems, fmt.Sprintf("pongs %q, want %q", h.pongs, c.pongs))
	}
	return problems
}

// summary formats frames, with the beginnings of their payloads.
func summary(frames []wiretest.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "[%#x %d %.40q]", f.Head, len(f.Payload), f.Payload)
	}
	return b.String()
}
