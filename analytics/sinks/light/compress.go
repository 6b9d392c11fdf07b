package light

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"colonnade/analytics/ship"
)

// compressor compresses the bodies of one sink, one after the other.
type compressor struct {
	encoding string // as HTTP names it; empty = none
	buffer   bytes.Buffer
	to       io.WriteCloser // nil = none
	reset    func(io.Writer)
}

func newCompressor(name string) (*compressor, error) {
	var err error
	c := &compressor{encoding: name}
	switch name {
	case "none", "":
		c.encoding = ""
	case "gzip":
		var w *gzip.Writer
		w, err = gzip.NewWriterLevel(&c.buffer, gzip.BestSpeed)
		c.to, c.reset = w, w.Reset
	case "zstd":
		var w *zstd.Encoder
		w, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		c.to, c.reset = w, w.Reset
	default:
		err = fmt.Errorf("compression=%s: must be none, gzip or zstd", name)
	}
	return c, err
}

// compress returns the text of a batch as it is sent, which is valid until the next call.
func (c *compressor) compress(b *ship.Batch) ([]byte, error) {
	if c.to == nil {
		return b.NDJSON(), nil
	}
	c.buffer.Reset()
	c.reset(&c.buffer)
	for piece := range b.Pieces() {
		if _, err := c.to.Write(piece); err != nil {
			return nil, err
		}
	}
	err := c.to.Close()
	return c.buffer.Bytes(), err
}
