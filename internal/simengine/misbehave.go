package simengine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
)

// shortBy is the number of bytes that FaultShortBody announces and does not send.
const shortBy = 1000

func engineFull() apiError {
	return apiError{Status: http.StatusServiceUnavailable, Type: "ServiceUnavailableError",
		Code: http.StatusServiceUnavailable, Message: "The engine has no room for this request."}
}

func engineFailed() apiError {
	return apiError{Status: http.StatusInternalServerError, Type: "InternalServerError",
		Code: http.StatusInternalServerError, Message: "The engine failed on purpose."}
}

// refuseByFault answers requests whose fault takes no slot, and reports whether it did.
func (j *job) refuseByFault(a *answer) bool {
	switch j.fault {
	case FaultRefuse:
		panic(http.ErrAbortHandler)
	case FaultFull:
		j.fail(engineFull())
	case FaultFull429:
		e := engineFull()
		e.Status, e.Code = http.StatusTooManyRequests, http.StatusTooManyRequests
		j.fail(e)
	case FaultFullInStream:
		j.fullInStream(a)
	case FaultError400:
		j.fail(badRequest("", "The engine does not like this request, on purpose."))
	case FaultError500:
		j.fail(engineFailed())
	case FaultHTMLError:
		page := "<html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>\n"
		j.head("text/html; charset=utf-8", len(page))
		j.w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(j.w, page)
	default:
		return false
	}
	return true
}

func (j *job) fullInStream(a *answer) {
	if !a.streamed || a.fail == nil {
		j.fail(engineFull())
		return
	}
	j.head(a.streamType, -1)
	if err := j.send(append(a.fail(nil, failPoint{err: engineFull()}), a.afterFail...)); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// writeRaw sends answers that net/http would not write.
func (j *job) writeRaw(a *answer) error {
	if err := j.clock.until(j.ctx, 1); err != nil {
		return err
	}
	switch j.fault {
	case FaultMalformedHead:
		return j.once("HTTP/banana 2OO fine\r\nthis is no header\r\n\r\n", false)
	case FaultBothLengths:
		return j.once(bothLengths(), true)
	case FaultFlood1xx:
		return j.writeForever("", "HTTP/1.1 103 Early Hints\r\nLink: </nothing>; rel=preload\r\n\r\n")
	default:
		start := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
		line := `{"id":"` // without a closing quote
		if a.streamed {
			start = "HTTP/1.1 200 OK\r\nContent-Type: " + a.streamType + "\r\nTransfer-Encoding: chunked\r\n\r\n"
			if a.streamType == eventStream {
				line = "data: "
			}
		}
		return j.writeForever(start+chunk(line), chunk(string(bytes.Repeat([]byte{'x'}, 4096))))
	}
}

// bothLengths is one chunked answer to a client that goes by Transfer-Encoding, and to one that goes by Content-Length
// a short answer followed by a second one.
func bothLengths() string {
	hidden := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{\"forged\":\"answer\"}\n"
	size := strconv.FormatInt(int64(len(hidden)), 16) + "\r\n"
	return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(size)) +
		"\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(hidden)[:len(size)+len(hidden)] + "\r\n0\r\n\r\n"
}

// once writes one answer and closes. If linger is set, it first waits until the client has closed, and counts a further
// request.
func (j *job) once(s string, linger bool) error {
	j.ticket.leave(outcomeFaulted)
	return j.hijack(func(c net.Conn) error {
		if _, err := io.WriteString(c, s); err != nil || !linger {
			return err
		}
		if n, _ := io.ReadAtLeast(c, make([]byte, 1), 1); n > 0 {
			j.e.reused.Add(1)
		}
		return nil
	})
}

// writeForever writes start, and then more until the client leaves.
func (j *job) writeForever(start, more string) error {
	return j.hijack(func(c net.Conn) error {
		// A client that has gone without resetting the connection would leave this writing until the window is full:
		// reading shows its end.
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = io.Copy(io.Discard, c)
			j.abort(c)
		}()
		defer func() { <-gone }()
		defer c.Close()
		if err := j.write(c, start); err != nil {
			return err
		}
		for {
			if err := j.write(c, more); err != nil {
				return err
			}
		}
	})
}

func (j *job) write(c net.Conn, s string) error {
	n, err := io.WriteString(c, s)
	j.e.bytes.Add(uint64(n))
	return err
}

// hijack takes the connection from net/http, calls f with it and closes it. When the engine closes, the connection is
// closed during f; f must notice by itself that the client has left.
func (j *job) hijack(f func(net.Conn) error) error {
	c, _, err := j.rc.Hijack()
	if err != nil {
		return fmt.Errorf("cannot take the connection over: %w", err)
	}
	stop := context.AfterFunc(j.ctx, func() { j.abort(c) })
	defer stop()
	defer c.Close()
	return f(c)
}

// abort closes a hijacked connection whose client or engine has gone. It releases the ticket first, because the client
// may send its next request as soon as it sees the close.
func (j *job) abort(c net.Conn) {
	j.ticket.leave(outcomeAborted)
	_ = c.Close() // ends reads and writes that block
}

func chunk(s string) string { return string(appendChunkHead(nil, len(s))) + s + "\r\n" }

func appendChunkHead(dst []byte, n int) []byte {
	return append(strconv.AppendInt(dst, int64(n), 16), "\r\n"...)
}
