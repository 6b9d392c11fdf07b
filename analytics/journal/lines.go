package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// readOptions says how a segment is read.
type readOptions struct {
	grows bool                  // it is the newest of its kind, so that its writer may be writing the last line
	pace  func(bytes int) error // called after so many bytes were read; its error ends the reading; nil = not paced
}

// readLines yields the JSON of each line of a segment from an offset on, in the order in which the lines were appended, and moves the
// offset behind each line. The JSON is valid until the next line is read. A corrupt line yields an error that wraps ErrCorrupt, and reading
// continues after it. An incomplete last line yields one that wraps ErrTorn, and leaves the offset before that line. Any other error is the last.
//
// Zeros behind the last line are no line. A segment that grows ends at the first of them. In any other, lines may follow that
// were written to the disk before the machine lost power, while those in between were not, which are one corrupt line.
func readLines(path string, offset *int64, o readOptions) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		fail := func(err error) bool { return yield(nil, fmt.Errorf("cannot read events: %w", err)) }
		file, err := os.Open(path)
		if err != nil {
			fail(err)
			return
		}
		defer file.Close()
		if _, err := file.Seek(*offset, io.SeekStart); err != nil {
			fail(err)
			return
		}
		source := &pacedReader{file: file, pace: o.pace}
		lines, reread := lineReader{Reader: bufio.NewReaderSize(source, 64<<10)}, int64(-1)
		for {
			if next, err := lines.Peek(1); o.grows && err == nil && next[0] == 0 {
				return
			}
			line, err := lines.next()
			text := bytes.TrimLeft(line, "\x00")
			switch {
			case errors.Is(err, io.EOF) && len(text) == 0:
				return
			case errors.Is(err, io.EOF):
				fail(fmt.Errorf("%s, byte %d: %w", path, *offset, ErrTorn))
				return
			case err != nil:
				fail(err)
				return
			}
			body, err := checkLine(text[:len(text)-1])
			if err != nil && o.grows && lines.endHere() {
				err = ErrTorn // its writer may store it now, and another processor may see the stores in another order
				fail(fmt.Errorf("%s, byte %d: %w", path, *offset, err))
				return
			}
			if err != nil && o.grows && reread != *offset {
				// It may have been read while it was stored, and lines behind it later.
				reread = *offset
				if _, err := file.Seek(*offset, io.SeekStart); err != nil {
					fail(err)
					return
				}
				lines.Reset(source)
				continue
			}
			if err != nil {
				err = fmt.Errorf("cannot read events: %s, byte %d: %w", path, *offset, err)
			} else if hole := len(line) - len(text); hole > 0 && !fail(fmt.Errorf("%s, byte %d: %d zeros: %w", path, *offset, hole, ErrCorrupt)) {
				return
			}
			*offset += int64(len(line))
			if !yield(body, err) {
				return
			}
		}
	}
}

// lineReader reads lines without an allocation for each.
type lineReader struct {
	*bufio.Reader
	long []byte // the last line, if it is longer than the reader's buffer
}

// next returns the next line with its newline; without one, and with io.EOF, at the end. It is valid until the next call.
func (r *lineReader) next() ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	r.long = r.long[:0]
	for errors.Is(err, bufio.ErrBufferFull) {
		r.long = append(r.long, line...)
		line, err = r.ReadSlice('\n')
	}
	r.long = append(r.long, line...)
	return r.long, err
}

// endHere reports whether a segment that grows has no further line yet.
func (r *lineReader) endHere() bool {
	next, err := r.Peek(1)
	return err != nil || next[0] == 0
}

// pacedReader calls pace after each read. Its error stays: Peek of a bufio.Reader takes an error away.
type pacedReader struct {
	file   *os.File
	pace   func(int) error
	failed error // of pace
}

func (r *pacedReader) Read(p []byte) (int, error) {
	if r.failed != nil {
		return 0, r.failed
	}
	n, err := r.file.Read(p)
	if n > 0 && r.pace != nil {
		r.failed = r.pace(n)
	}
	return n, err
}
