package link

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"testing"
)

// modelStream is what a naive reader of the protocol knows about a stream: all bytes that arrived, and its end.
type modelStream struct {
	bytes string
	fin   bool
	reset bool
}

// model reads frames as the accepting side does, whose streams are neither read nor written. It returns the streams, and whether the other side has violated the
// protocol.
func model(all []byte) (streams map[uint32]*modelStream, violated bool) {
	streams = map[uint32]*modelStream{}
	for len(all) >= 8 {
		kind, flags, length, id := all[0], all[1], int(binary.LittleEndian.Uint16(all[2:])), binary.LittleEndian.Uint32(all[4:])
		ofStream := kind >= 1 && kind <= 4
		switch {
		case kind == 0 || kind > 7, ofStream && id == 0, (kind == 5 || kind == 6) && id != 0,
			(kind == 1 || kind == 2) && (length > 16384 || flags > 1), kind == 3 && (length != 4 || flags != 0),
			kind == 4 && (length != 0 || flags&^2 != 0), kind > 4 && (length != 0 || flags != 0):
			return streams, true
		}
		if len(all) < 8+length {
			return streams, false
		}
		payload := string(all[8 : 8+length])
		all = all[8+length:]
		if kind == 1 {
			if id != uint32(len(streams))+1 {
				return streams, true
			}
			streams[id] = new(modelStream)
		}
		if !ofStream {
			continue
		}
		s := streams[id]
		switch {
		case s == nil:
			return streams, true
		case kind == 3:
			if n := binary.LittleEndian.Uint32([]byte(payload)); n > 1<<20-1<<16 {
				return streams, true // of one frame; several are not modelled
			}
		case kind == 4:
			s.reset = true
		case s.fin || len(s.bytes)+length > 65536:
			return streams, true
		default:
			s.bytes += payload
			s.fin = flags == 1
		}
	}
	return streams, false
}

// FuzzLink feeds a link with bytes in pieces, and compares it with the model.
func FuzzLink(f *testing.F) {
	one := func(frames ...frame) (all []byte) {
		for _, fr := range frames {
			all = fr.append(all)
		}
		return all
	}
	f.Add(one(frame{kind: kindOpen, stream: 1, payload: []byte("hello")}, frame{kind: kindData, flags: flagFin, stream: 1, payload: []byte("you")}), uint8(3))
	f.Add(one(frame{kind: kindOpen, stream: 1}, frame{kind: kindOpen, flags: flagFin, stream: 2}, frame{kind: kindReset, stream: 1}, frame{kind: kindPing}), uint8(200))
	f.Add(one(frame{kind: kindOpen, stream: 1}, windowFrame(1, 100), frame{kind: kindGoAway}, frame{kind: kindData, stream: 2}), uint8(9))
	f.Add(one(frame{kind: kindOpen, stream: 2}), uint8(0))
	f.Fuzz(func(t *testing.T, all []byte, piece uint8) {
		want, violated := model(all)
		if windows(all) > 1 {
			return
		}
		got := map[uint32]*Stream{}
		l := New(Config{Conn: &pieces{left: all, size: int(piece) + 1}, TryWrite: func(p []byte) (int, error) { return len(p), nil },
			Accept: func(s *Stream) { got[s.id] = s }})
		err := l.Run()
		if errors.Is(l.cause, errProtocol) != violated {
			t.Fatalf("the link ended with %v; violated: %v", err, violated)
		}
		if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) && !violated {
			t.Fatalf("streams %v, want %v", got, want)
		}
		for id, s := range got {
			read, err := io.ReadAll(s)
			w := want[id]
			if string(read) != w.bytes || (err == nil) != w.fin || !w.fin && w.reset != errors.Is(err, ErrReset) {
				t.Errorf("stream %d: %q, %v; want %+v", id, read, err, w)
			}
		}
	})
}

// windows returns how many window frames there are at most.
func windows(all []byte) (n int) { return bytes.Count(all, []byte{byte(kindWindow)}) }

// pieces is a connection from which bytes are read in pieces.
type pieces struct {
	net.Conn
	left []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.left[:min(p.size, len(p.left))])
	p.left = p.left[n:]
	return n, nil
}

func (p *pieces) Close() error { return nil }

// The answers to the last streams may wait for a connection that is slow.
func TestDrainedLinkHasWrittenAll(t *testing.T) {
	l := New(Config{})
	l.draining = true
	if !l.isDrained() {
		t.Error("a link with nothing left is not drained")
	}
	l.sender.push(frame{kind: kindPing})
	if l.isDrained() {
		t.Error("a link with bytes to be written is drained")
	}
}

func TestTurns(t *testing.T) {
	var s sender
	one, two, three := new(Stream), new(Stream), new(Stream)
	s.queued = maxPending
	if s.hasRoomLocked(one) {
		t.Error("room beyond the bound")
	}
	s.queueLocked(one, nil)
	s.queueLocked(two, nil)
	s.queueLocked(one, nil)
	s.ended = 1
	for _, of := range []*Stream{one, two} {
		if s.hasRoomLocked(three) {
			t.Error("a stream that has not waited comes first")
		}
		if !s.hasRoomLocked(of) {
			t.Error("the stream whose turn it is has no room")
		}
		s.passTurnLocked(of)
	}
	if !s.hasRoomLocked(three) {
		t.Error("no room although no stream waits")
	}
}
