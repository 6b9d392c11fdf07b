package light

import (
	"bytes"
	"io"
	"sync"

	"colonnade/analytics/ship"
)

// body is the body of a request in memory that is used again. A transport may read it several times, and closes each reader, if only after the
// request.
type body struct {
	text  []byte
	pause func() // called between two pieces
	open  sync.WaitGroup
}

// reader returns a reader from the beginning.
func (b *body) reader() (io.ReadCloser, error) {
	b.open.Add(1)
	return &bodyReader{text: bytes.NewReader(b.text), pause: b.pause, close: sync.OnceFunc(b.open.Done)}, nil
}

// wait waits until all readers are closed. The request must have ended, or its context.
func (b *body) wait() { b.open.Wait() }

type bodyReader struct {
	text  *bytes.Reader // not embedded: its WriteTo would write all at once
	since int           // bytes since the last pause
	pause func()
	close func()
}

// Read implements [io.Reader].
func (r *bodyReader) Read(p []byte) (int, error) {
	if r.since >= ship.PieceBytes {
		r.since = 0
		r.pause()
	}
	n, err := r.text.Read(p)
	r.since += n
	return n, err
}

// Close implements [io.Closer].
func (r *bodyReader) Close() error {
	r.close()
	return nil
}
