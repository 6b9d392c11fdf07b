package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// serverLog is the logger of fasthttp, which reports mostly broken connections. Its errors may quote a key or a prompt, so they are
// replaced by descriptions.
type serverLog struct{ logger *slog.Logger }

// Printf implements fasthttp's logger.
func (l serverLog) Printf(format string, args ...any) {
	panicked := false
	args = slices.Clone(args)
	for i := range args {
		if err, ok := args[i].(error); ok {
			var inWriting *fasthttp.ErrBodyStreamWritePanic
			var panicErr PanicError
			panicked = panicked || errors.As(err, &inWriting) || errors.As(err, &panicErr)
			args[i] = sanitizeError(err)
		}
	}
	text := fmt.Sprintf(format, args...)
	if panicked { // while a response was written, after the handler: fasthttp has recovered from it
		l.logger.Error("panic reported by fasthttp", "text", text)
		return
	}
	l.logger.Debug("connection problem reported by fasthttp", "text", text)
}

// sanitizeError describes an error of fasthttp without what it quotes.
func sanitizeError(err error) string {
	var panicked *fasthttp.ErrBodyStreamWritePanic
	var panicErr PanicError
	var network *net.OpError
	switch {
	case errors.As(err, &panicErr):
		return "panic while writing a response: " + string(panicErr)
	case errors.As(err, &panicked):
		// The value of the panic is only in the text.
		_, what, known := strings.Cut(err.Error(), ": runtime error: ")
		if !known {
			what = "not a runtime error"
		}
		return "panic while writing a response: " + what
	case errors.As(err, &network):
		return network.Error() // addresses
	case errors.Is(err, io.EOF):
		return "the connection ended"
	}
	return readError(err).Message
}
