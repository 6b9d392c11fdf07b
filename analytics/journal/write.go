package journal

import (
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	maxWindow         = 256 << 10 // bytes of the newest segment that are allocated ahead
	windowsPerSegment = 64        // of smaller segments; at least a page
)

// errChanged is wrapped by the errors of segments that another program has made shorter or longer.
var errChanged = errors.New("another program has changed the file")

// write appends one line of about now as a whole or not at all.
func (s *segments) write(line []byte, now time.Time) error {
	stored, err := s.store(line, now)
	if err != nil {
		return fmt.Errorf("cannot append event: %w", err)
	}
	if !stored {
		if err := s.writeCall(line); err != nil {
			return fmt.Errorf("cannot append event: %w", err)
		}
	}
	s.newest.bytes += int64(len(line))
	s.allocated = max(s.allocated, s.newest.bytes)
	s.newest.events++
	return nil
}

// writeCall appends a line to the file by a system call.
func (s *segments) writeCall(line []byte) error {
	n, err := s.file.Write(line)
	// The next line would be lost with half a line before it.
	if err != nil && n > 0 && s.file.Truncate(s.newest.bytes) != nil {
		s.newest.bytes += int64(n)
		s.retire()
	}
	return err
}

// store copies a line to the mapped end of the newest segment. It returns false if the line must be written instead, as all later
// lines of this segment are: the disk is nearly full, the file system cannot map, or another program has changed the file.
func (s *segments) store(line []byte, now time.Time) (bool, error) {
	if s.unmapped {
		return false, nil
	}
	var err error
	if end := s.newest.bytes + int64(len(line)); end > s.allocated {
		err = s.allocate(end)
	}
	if err == nil {
		if err = s.window.put(line, s.newest.bytes, now); err == nil {
			return true, nil
		}
		err = fmt.Errorf("%w, or the disk has failed: %w", errChanged, err)
	}
	if !errors.Is(err, errChanged) {
		return false, s.unmap()
	}
	s.lost, s.lostAt = err, time.Now() // events may be lost
	if err := s.unmap(); err != nil {
		return false, err
	}
	return false, s.separate()
}

// separate ends a line of which another program may have left a part, so that the next one is not lost with it.
func (s *segments) separate() error {
	err := s.writeCall([]byte{'\n'})
	if err == nil {
		s.newest.bytes++
	}
	return err
}

// allocate extends the newest segment, so that the window has room up to end and further, but not beyond the capacity.
func (s *segments) allocate(end int64) error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != s.allocated {
		return fmt.Errorf("%w: it has %d bytes instead of %d", errChanged, info.Size(), s.allocated)
	}
	size := s.allocated
	step := min(max(s.limit/windowsPerSegment, int64(os.Getpagesize())), maxWindow)
	end = max(end, min(size+step, s.carried+s.capacity()))
	if end-size > maxWindow {
		return errors.New("the line is longer than a window")
	}
	s.allocated = end
	return s.window.extend(s.file, size, s.newest.bytes, end)
}

// unmap has the further lines of the newest segment written. After an error the segment is retired.
func (s *segments) unmap() error {
	s.unmapped = true
	err := s.cutTail()
	if err != nil {
		s.retire()
	}
	return err
}

// cutTail ends the mapping of the newest segment, and removes the zeros behind its last line.
func (s *segments) cutTail() error {
	s.window.close()
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	s.newest.bytes = min(s.newest.bytes, info.Size())
	if info.Size() > s.newest.bytes {
		if err := s.file.Truncate(s.newest.bytes); err != nil {
			return err
		}
	}
	s.allocated = s.newest.bytes
	return nil
}
