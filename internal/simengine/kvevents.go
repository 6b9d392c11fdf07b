package simengine

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"net"
	"sync"
	"time"
)

// maxBehind is how many messages a subscriber may be behind before it loses some.
const maxBehind = 1024

// publisher publishes events of the cache over ZMTP 3.0, in the lists that vLLM and SGLang write.
type publisher struct {
	mu          sync.Mutex // guards the fields below
	seq         uint64
	subscribers map[chan []byte]struct{}
}

// changes is what one message says.
type changes struct {
	gone, stored []uint64 // in this order
	blockTokens  int
	cleared      bool
}

// publish sends a message to all subscribers, but for what a fault makes of it.
func (p *publisher) publish(fault string, c changes) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seq := p.seq
	p.seq++
	payload := c.batch()
	switch fault {
	case FaultEventsLost:
		return
	case FaultEventsGarbage:
		payload = []byte("\xc1no events")
	case FaultEventsLying:
		payload = changes{gone: make([]uint64, 1000)}.batch()
	}
	message := appendZMTP(nil, 1, nil)
	message = appendZMTP(message, 1, binary.BigEndian.AppendUint64(nil, seq))
	message = appendZMTP(message, 0, payload)
	for s := range p.subscribers {
		select {
		case s <- message:
		default: // it is too slow
		}
	}
}

// batch encodes the events in MessagePack.
func (c changes) batch() []byte {
	var events [][]byte
	if c.cleared {
		events = append(events, append([]byte{0x91}, packText("AllBlocksCleared")...))
	}
	if len(c.gone) > 0 {
		events = append(events, packHashes(append([]byte{0x92}, packText("BlockRemoved")...), c.gone))
	}
	if len(c.stored) > 0 {
		e := packHashes(append([]byte{0x96}, packText("BlockStored")...), c.stored)
		e = append(e, 0xc0, 0x90, 0xcd) // no parent, no tokens
		e = binary.BigEndian.AppendUint16(e, uint16(c.blockTokens))
		events = append(events, append(e, 0xc0)) // no adapter
	}
	now := math.Float64bits(float64(time.Now().UnixMilli()) / 1000)
	b := binary.BigEndian.AppendUint64([]byte{0x93, 0xcb}, now)
	b = append(b, 0x90|byte(len(events)))
	for _, e := range events {
		b = append(b, e...)
	}
	return append(b, 0) // rank
}

func packText(s string) []byte { return append([]byte{0xa0 | byte(len(s))}, s...) }

func packHashes(dst []byte, hashes []uint64) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, 0xdd), uint32(len(hashes)))
	for _, h := range hashes {
		dst = binary.BigEndian.AppendUint64(append(dst, 0xcf), h)
	}
	return dst
}

func appendZMTP(dst []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		dst = binary.BigEndian.AppendUint64(append(dst, flags|2), uint64(len(body)))
	} else {
		dst = append(dst, flags, byte(len(body)))
	}
	return append(dst, body...)
}

// ServeEvents publishes the events of the cache to the subscribers that connect to ln, until ctx ends. It closes ln.
func (e *Engine) ServeEvents(ctx context.Context, ln net.Listener) {
	var running sync.WaitGroup
	defer running.Wait()
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		running.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			e.events.serve(conn)
		})
	}
}

// serve sends messages to one subscriber until it leaves.
func (p *publisher) serve(conn net.Conn) {
	hello := make([]byte, 64)
	hello[0], hello[8], hello[9], hello[10] = 0xff, 1, 0x7f, 3
	copy(hello[12:], "NULL")
	ready := appendZMTP(hello, 4, []byte("\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"))
	if _, err := conn.Write(ready); err != nil {
		return
	}
	// The first bytes of the subscriber, its READY and its subscription to all topics.
	if _, err := io.ReadFull(conn, make([]byte, 64+2+25+2+1)); err != nil {
		return
	}
	messages := make(chan []byte, maxBehind)
	p.join(messages)
	defer p.leave(messages)
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = io.Copy(io.Discard, conn) // ends when the subscriber leaves, or conn is closed
	}()
	defer func() { _ = conn.Close(); <-left }()
	for {
		select {
		case m := <-messages:
			if _, err := conn.Write(m); err != nil {
				return
			}
		case <-left:
			return
		}
	}
}

func (p *publisher) join(messages chan []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.subscribers == nil {
		p.subscribers = map[chan []byte]struct{}{}
	}
	p.subscribers[messages] = struct{}{}
}

func (p *publisher) leave(messages chan []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.subscribers, messages)
}

// Subscribers returns how many read the events of the cache.
func (e *Engine) Subscribers() int {
	e.events.mu.Lock()
	defer e.events.mu.Unlock()
	return len(e.events.subscribers)
}
