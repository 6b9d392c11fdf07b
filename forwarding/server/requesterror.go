package server

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/netconn"
	"colonnade/openai"
	"colonnade/reasons"
)

// readError returns the client's error for a request that could not be read.
func readError(err error) *openai.Error {
	var small *fasthttp.ErrSmallBuffer
	switch {
	case errors.As(err, &small):
		return openai.HeadersTooLarge(MaxHead)
	case errors.Is(err, fasthttp.ErrTimeout), netconn.IsTimeout(err):
		return openai.RequestTimeout("its head, and the first 8 KiB of its body, must arrive within 10 s")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return openai.InvalidRequest("", "the body ended before its announced length")
	}
	return openai.InvalidRequest("", "the request is not well-formed HTTP/1.1")
}

// bodyError returns the client's error for a body that ReadBody could not read.
func bodyError(err error, limit int) *openai.Error {
	var memory *bodyMemoryError
	switch {
	case errors.Is(err, errBodyTooLarge):
		return openai.RequestTooLarge(int64(limit))
	case errors.As(err, &memory):
		return openai.NoBodyMemory(memory.message, memory.retryAfter)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return openai.RequestTimeout("its body must bring at least 8 KiB every 10 s, more the larger it is, or its end")
	case errors.Is(err, netconn.ErrCancelled): // by the drain: the client is not watched yet
		return openai.Unavailable(reasons.Draining, time.Second)
	}
	return readError(err)
}

func noTrailers() *openai.Error { return openai.InvalidRequest("", "trailers are not supported") }
