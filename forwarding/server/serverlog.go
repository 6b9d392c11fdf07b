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

// serverLog takes what fasthttp has to say: mostly connections that broke, which is no news. Its errors quote what they
// are about, which may be a key or a prompt, so they are told in our words.
type serverLog struct{ logger *slog.Logger }

// Printf implements fasthttp's logger.
func (l serverLog) Printf(format string, args ...any) {
	panicked := false
	args = slices.Clone(args)
	for i := range args {
		if err, ok := args[i].(error); ok {
			var inWriting *fasthttp.ErrBodyStreamWritePanic
			var ours PanicError
			panicked = panicked || errors.As(err, &inWriting) || errors.As(err, &ours)
			args[i] = sanitizeError(err)
		}
	}
	text := "server: " + fmt.Sprintf(format, args...)
	if panicked { // in writing an answer, after the handler: fasthttp has caught it
		l.logger.Error(text)
		return
	}
	l.logger.Debug(text)
}

// sanitizeError tells an error of fasthttp's without what it quotes.
func sanitizeError(err error) string {
	var panicked *fasthttp.ErrBodyStreamWritePanic
	var ours PanicError
	var network *net.OpError
	switch {
	case errors.As(err, &ours):
		return "panic in writing an answer: " + string(ours)
	case errors.As(err, &panicked):
		// Only the text is left of what it was.
		_, what, known := strings.Cut(err.Error(), ": runtime error: ")
		if !known {
			what = "not one of the runtime's"
		}
		return "panic in writing an answer: " + what
	case errors.As(err, &network):
		return network.Error() // addresses
	case errors.Is(err, io.EOF):
		return "the connection has ended"
	}
	return readError(err).Message
}
