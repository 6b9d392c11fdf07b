package forwarding

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	// maxInterim bounds the 1xx answers before the real one. Of a node of ours that was asked for them, as many more
	// may come in each second.
	maxInterim = 8
	// maxInterimHead bounds each of them that says something to us.
	maxInterimHead = 512
	// maxPosition is the most that is believed.
	maxPosition = 1_000_000_000
	// interimStall is how long a node may take for an interim answer: one that was asked for them reads them.
	interimStall = time.Second
)

// Progress is how a request waits in a colo. It travels in the header x-colonnade-progress of interim answers (102
// Processing), as `position=3;expected_ms=1200`, to a node whose hop token asked for it.
type Progress struct {
	Position int           // 1 is served next
	Expected time.Duration // the wait that is still expected, if it is known
	Known    bool
}

// String returns the header's value.
func (p Progress) String() string { return string(p.append(nil, ';')) }

func (p Progress) append(b []byte, between byte) []byte {
	b = append(b, "position="...)
	b = strconv.AppendInt(b, int64(p.Position), 10)
	if p.Known {
		b = append(b, between)
		b = append(b, "expected_ms="...)
		b = strconv.AppendInt(b, p.Expected.Milliseconds(), 10)
	}
	return b
}

// ParseProgress reads the header's value. Names that are not known are passed over, as in a verdict.
func ParseProgress(s string) (Progress, error) {
	var p Progress
	for field := range strings.SplitSeq(s, ";") {
		name, value, _ := strings.Cut(field, "=")
		if name != "position" && name != "expected_ms" {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || n > maxPosition {
			return Progress{}, fmt.Errorf("cannot read progress %.40q: %s is not from 0 to %d", s, name, maxPosition)
		}
		if name == "position" {
			p.Position = int(n)
		} else {
			p.Expected, p.Known = time.Duration(n)*time.Millisecond, true
		}
	}
	if p.Position < 1 {
		return Progress{}, fmt.Errorf("cannot read progress %.40q: it has no position of 1 or more", s)
	}
	return p, nil
}

// WriteProgress tells the node behind client how its request waits, before any answer. It is for the goroutine that
// will answer. After an error nothing more can be said.
func WriteProgress(client net.Conn, p Progress) error {
	if err := client.SetWriteDeadline(time.Now().Add(interimStall)); err != nil {
		return err
	}
	if _, err := client.Write([]byte("HTTP/1.1 102 Processing\r\n" + HeaderProgress + ": " + p.String() + "\r\n\r\n")); err != nil {
		return err
	}
	return client.SetWriteDeadline(time.Time{}) // it would hold for the answer
}

// interims are the interim answers before one real answer.
type interims struct {
	tell  func(Progress) // nil = they were not asked for
	began time.Time      // zero without tell
	count int
}

// pass takes one more, or says why it is one too many.
func (i *interims) pass(h *head, size int) error {
	most := maxInterim
	if i.tell != nil {
		most += int(maxInterim * time.Since(i.began).Seconds())
	}
	if i.count++; i.count > most {
		return fmt.Errorf("%w: more than %d interim answers", errMalformed, most)
	}
	said := h.get(HeaderProgress)
	if i.tell == nil || said == "" {
		return nil
	}
	if size > maxInterimHead {
		return fmt.Errorf("%w: interim answer over %d bytes", errMalformed, maxInterimHead)
	}
	p, err := ParseProgress(said)
	if err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	i.tell(p)
	return nil
}
