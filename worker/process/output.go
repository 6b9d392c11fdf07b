package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// maxLine is the longest line that is written whole. A longer one is divided.
const maxLine = 16 << 10

// output carries a stream of the engine to its place, with a prefix before each line. Lines end with \n, \r\n, or \r, by which programs
// show progress.
type output struct {
	read, write *os.File // the ends of the pipe; the engine writes
	to          io.Writer
	prefix      []byte
	written     *sync.Mutex // is held for each write to a place

	partial []byte // the beginning of a line
	ended   bool   // the line has been written, and a \n that follows is no line of its own
	done    chan struct{}
}

func newOutput(written *sync.Mutex, to io.Writer, prefix string) (*output, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &output{read: read, write: write, to: to, prefix: []byte(prefix), written: written, done: make(chan struct{})}, nil
}

// start reads the stream, once the engine has the other end.
func (o *output) start() {
	o.write.Close()
	go o.run()
}

// end waits until the stream has ended, at most for a time: a process that has left the group may keep it open.
func (o *output) end(most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-o.done:
		return
	case <-timer.C:
	}
	o.read.Close()
	<-o.done
}

func (o *output) run() {
	defer close(o.done)
	defer o.read.Close()
	buffer := make([]byte, 32<<10)
	for {
		var deadline time.Time
		if len(o.partial) > 0 {
			deadline = time.Now().Add(idleFlush)
		}
		_ = o.read.SetReadDeadline(deadline) // pipes have deadlines
		n, err := o.read.Read(buffer)
		lines := o.take(nil, buffer[:n])
		if err != nil {
			lines = o.flush(lines)
		}
		if len(lines) > 0 {
			o.written.Lock()
			_, _ = o.to.Write(lines) // an engine goes on whose output goes nowhere
			o.written.Unlock()
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

// take appends the lines that are complete to out.
func (o *output) take(out, read []byte) []byte {
	for len(read) > 0 {
		if o.ended {
			o.ended = false
			if read[0] == '\n' {
				read = read[1:]
				continue
			}
		}
		end := bytes.IndexAny(read, "\r\n")
		room := maxLine - len(o.partial)
		switch {
		case end < 0 && len(read) < room:
			o.partial = append(o.partial, read...)
			return out
		case end < 0 || end > room:
			out = o.line(out, read[:room])
			o.ended = true
			read = read[room:]
		default:
			out = o.line(out, read[:end])
			o.ended = read[end] == '\r'
			read = read[end+1:]
		}
	}
	return out
}

// line appends a line, which ends with these bytes.
func (o *output) line(out, end []byte) []byte {
	out = append(append(append(out, o.prefix...), o.partial...), end...)
	o.partial = o.partial[:0]
	return append(out, '\n')
}

// flush appends what has no end yet as a line.
func (o *output) flush(out []byte) []byte {
	if len(o.partial) == 0 {
		return out
	}
	o.ended = true // if its end still comes, it is no line of its own
	return o.line(out, nil)
}
