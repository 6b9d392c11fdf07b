package journal

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

const (
	streamBuffer = 128 << 10 // bytes that are read at once
	longestLine  = 16 << 20  // a longer one is corrupt
)

// stream reads the final events of one kind of segments as lines. It keeps no file open, so that a segment that is dropped makes room on
// the disk at once. Not safe for concurrent use.
type stream struct {
	kind int
	at   Position // behind head, if there is one

	head []byte // JSON of the next event, within buffer; nil = none was found
	time []byte // of head, as it is written, without its Z

	buffer []byte // of the segment, from Offset of at on; within room
	room   []byte
	done   bool  // there is nothing more until the directory is looked at again
	err    error // why find has failed, the last time

	rereadAt Position // of a bad line that was read again
}

// refresh forgets what was not written yet when the buffer was read.
func (s *stream) refresh() {
	if i := bytes.IndexByte(s.buffer, 0); i >= 0 {
		s.buffer = s.buffer[:i]
	}
	s.done = false
}

// find makes head the next final event, if there is one before the ends that d knows.
func (s *stream) find(d *directory) error {
	for s.head == nil && !s.done {
		newest := d.next(s.kind, s.at) == 0
		if newest && len(s.buffer) > 0 && s.buffer[0] == 0 {
			s.end(d, newest)
			break
		}
		line, n := s.line(newest)
		switch {
		case line != nil:
			s.skip(n)
			s.accept(line)
		case n > 0:
			s.bad(n)
		default:
			more, err := s.read(d)
			switch {
			case errors.Is(err, fs.ErrNotExist): // dropped since it was listed, or none was written yet
				if err := s.leave(d); err != nil {
					return err
				}
			case err != nil:
				return err
			case !more:
				s.end(d, newest)
			}
		}
	}
	return nil
}

// bad passes n bytes of a bad line, or reads them again the first time: they may have been read while they were stored, and lines behind
// them later.
func (s *stream) bad(n int) {
	if s.rereadAt != s.at {
		s.rereadAt, s.buffer = s.at, nil
		return
	}
	s.skip(n)
	s.at.Corrupt++
}

func (s *stream) skip(n int) {
	s.buffer = s.buffer[n:]
	s.at.Offset += int64(n)
}

// accept takes a line as the head if it is a final event.
func (s *stream) accept(line []byte) {
	if !isFinal(line) {
		return
	}
	s.at.Finals++
	s.head, s.time = line, timeOf(line)
}

// line returns the JSON of the next line in the buffer, and how many bytes it takes. Without JSON, that many bytes are corrupt, and with 0
// bytes more must be read. The last line of the newest segment may be one that is being written now.
func (s *stream) line(newest bool) ([]byte, int) {
	zeros := 0
	if len(s.buffer) > 0 && s.buffer[0] == 0 && !newest {
		zeros = len(s.buffer) - len(bytes.TrimLeft(s.buffer, "\x00"))
	}
	text := s.buffer[zeros:]
	end := bytes.IndexByte(text, '\n')
	if end < 0 {
		if len(text) > longestLine {
			return nil, len(s.buffer)
		}
		return nil, 0
	}
	if zeros > 0 {
		return nil, zeros
	}
	json, err := checkLine(text[:end])
	if err != nil && newest && (end+1 == len(text) || text[end+1] == 0) {
		return nil, 0 // its writer may store it now, and another processor may see the stores in another order
	}
	if err != nil {
		return nil, end + 1
	}
	return json, end + 1
}

// read reads more of the segment behind the buffer, and reports whether there was more.
func (s *stream) read(d *directory) (bool, error) {
	file, err := os.Open(segmentPath(d.dir, streamPrefixes()[s.kind], s.at.Segment))
	if err != nil {
		return false, err
	}
	defer file.Close()
	kept := len(s.buffer)
	if len(s.room) < kept+streamBuffer {
		room := make([]byte, kept+streamBuffer)
		copy(room, s.buffer)
		s.room = room
	} else {
		copy(s.room, s.buffer)
	}
	n, err := file.ReadAt(s.room[kept:kept+streamBuffer], s.at.Offset+int64(kept))
	s.buffer = s.room[:kept+n]
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n > 0, err
}

// leave leaves a segment that does not exist.
func (s *stream) leave(d *directory) error {
	s.buffer = nil
	before := s.at.Segment
	err := d.look()
	d.catchUp(s.kind, &s.at)
	s.done = s.at.Segment == before
	return err
}

// end handles the end of a segment.
func (s *stream) end(d *directory, newest bool) {
	rest := bytes.TrimLeft(s.buffer, "\x00")
	s.buffer = nil // what is behind the last line may change
	if newest {
		s.done = true
		return
	}
	if len(rest) > 0 { // torn
		if s.rereadAt != s.at {
			s.rereadAt = s.at
			return
		}
		s.at.Corrupt++
	}
	d.moveTo(s.kind, &s.at, d.next(s.kind, s.at))
}

// timeOf returns the time of an event in its JSON, without the Z at its end, so that times can be compared as bytes.
func timeOf(json []byte) []byte {
	_, value, _ := bytes.Cut(json, timeField)
	value, _, _ = bytes.Cut(value, []byte{'Z'})
	return value
}
