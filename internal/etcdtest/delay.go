package etcdtest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"time"
)

// delayed returns a connection whose writes arrive after the delay.
func (p *Proxy) delayed(c net.Conn) io.WriteCloser {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.delay == 0 {
		return c
	}
	w := &delayedWriter{c: c, delay: p.delay, chunks: make(chan chunk, chunksOnTheWay), closed: make(chan struct{})}
	p.wait.Go(w.run)
	return w
}

// chunksOnTheWay bounds the memory of a delayed connection; a writer waits while there are more.
const chunksOnTheWay = 1024

type chunk struct {
	due  time.Time
	data []byte
}

// delayedWriter writes to a connection later, in order.
type delayedWriter struct {
	c      net.Conn
	delay  time.Duration
	chunks chan chunk
	once   sync.Once
	closed chan struct{}
}

func (w *delayedWriter) Write(b []byte) (int, error) {
	select {
	case w.chunks <- chunk{time.Now().Add(w.delay), bytes.Clone(b)}:
		return len(b), nil
	case <-w.closed:
		return 0, net.ErrClosed
	}
}

func (w *delayedWriter) run() {
	defer func() { _ = w.Close() }()
	for {
		select {
		case next := <-w.chunks:
			time.Sleep(time.Until(next.due))
			if _, err := w.c.Write(next.data); err != nil {
				return
			}
		case <-w.closed:
			return
		}
	}
}

func (w *delayedWriter) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.c.Close()
}
