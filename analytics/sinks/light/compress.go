package light

import (
	"bytes"
	"fmt"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// compressor compresses the bodies of one sink, one after the other.
type compressor struct {
	encoding string // as HTTP names it; empty = none
	buffer   bytes.Buffer
	gzip     *gzip.Writer
	zstd     *zstd.Encoder
	out      []byte
}

func newCompressor(name string) (*compressor, error) {
	var err error
	c := &compressor{encoding: name}
	switch name {
	case "none", "":
		c.encoding = ""
	case "gzip":
		c.gzip, err = gzip.NewWriterLevel(&c.buffer, gzip.BestSpeed)
	case "zstd":
		c.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	default:
		err = fmt.Errorf("compression=%s: must be none, gzip or zstd", name)
	}
	return c, err
}

// compress returns the compressed text, which is valid until the next call.
func (c *compressor) compress(text []byte) ([]byte, error) {
	switch {
	case c.zstd != nil:
		c.out = c.zstd.EncodeAll(text, c.out[:0])
		return c.out, nil
	case c.gzip == nil:
		return text, nil
	}
	c.buffer.Reset()
	c.gzip.Reset(&c.buffer)
	if _, err := c.gzip.Write(text); err != nil {
		return nil, err
	}
	err := c.gzip.Close()
	return c.buffer.Bytes(), err
}
