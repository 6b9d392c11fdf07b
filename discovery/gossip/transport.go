package gossip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// maxPacket bounds packets that are read; siblings send at most maxSend and some overhead.
	maxPacket = 2 << 10
	// maxStream bounds what is read from one stream, in bytes: the state of a thousand members.
	maxStream = 256 << 10
	// maxStreams bounds the streams of others at one time, each of which is an open file. A stream takes milliseconds.
	maxStreams = 8
	// portAttempts is how often a free port is looked for that both UDP and TCP have.
	portAttempts = 10
	// acceptPause follows a failure to accept or to read, such as too many open files.
	acceptPause = 100 * time.Millisecond
)

var errStreamTooLong = fmt.Errorf("gossip: more than %d bytes in one stream", maxStream)

// transport is the sockets of a member. Beside the library's own, it bounds what outsiders can make it hold, reads into one small buffer
// instead of allocating 64 KiB for each packet, does not spin while a socket fails, and closes each connection at the end.
type transport struct {
	tcp     net.Listener
	udp     *net.UDPConn
	logger  *slog.Logger
	packets chan *memberlist.Packet
	streams chan net.Conn

	ctx    context.Context // done once the transport is shut down
	cancel context.CancelFunc
	loops  sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	open    map[*stream]struct{}
	inbound int // of open
}

// listen binds UDP and TCP to one address, and begins to read.
func listen(address string, logger *slog.Logger) (*transport, error) {
	var t *transport
	var err error
	for range portAttempts {
		if t, err = bind(address); err == nil {
			break
		}
		if _, port, split := net.SplitHostPort(address); split != nil || port != "0" {
			break // another attempt would find the same
		}
	}
	if err != nil {
		return nil, err
	}
	t.logger = logger
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.packets, t.streams = make(chan *memberlist.Packet), make(chan net.Conn)
	t.open = map[*stream]struct{}{}
	t.loops.Go(t.readPackets)
	t.loops.Go(t.accept)
	return t, nil
}

// bind binds TCP, and UDP to the same address and port.
func bind(address string) (*transport, error) {
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	bound := tcp.Addr().(*net.TCPAddr) //nolint:forcetypeassert // of a TCP listener
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: bound.IP, Port: bound.Port, Zone: bound.Zone})
	if err != nil {
		tcp.Close()
		return nil, err
	}
	return &transport{tcp: tcp, udp: udp}, nil
}

func (t *transport) bound() netip.AddrPort {
	return t.tcp.Addr().(*net.TCPAddr).AddrPort() //nolint:forcetypeassert // of a TCP listener
}

// readPackets passes packets on until the transport is shut down. Those that are too long are dropped.
func (t *transport) readPackets() {
	buffer := make([]byte, maxPacket+1)
	for {
		n, from, err := t.udp.ReadFromUDPAddrPort(buffer)
		switch {
		case t.ctx.Err() != nil:
			return
		case err != nil:
			t.logger.Debug("cannot read gossip packets", "error", err)
			t.pause()
			continue
		case n == 0 || n > maxPacket:
			continue
		}
		packet := &memberlist.Packet{
			Buf: append([]byte(nil), buffer[:n]...), From: net.UDPAddrFromAddrPort(from), Timestamp: time.Now(),
		}
		select {
		case t.packets <- packet:
		case <-t.ctx.Done():
			return
		}
	}
}

// accept passes connections on until the transport is shut down. Those that are too many are closed.
func (t *transport) accept() {
	for {
		conn, err := t.tcp.Accept()
		if t.ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return
		}
		if err != nil {
			t.logger.Debug("cannot accept gossip connections", "error", err)
			t.pause()
			continue
		}
		s := t.track(conn, true)
		if s == nil {
			continue
		}
		select {
		case t.streams <- s:
		case <-t.ctx.Done():
			_ = s.Close()
			return
		}
	}
}

// pause waits a moment after a failure, which is mostly one of the machine.
func (t *transport) pause() {
	select {
	case <-time.After(acceptPause):
	case <-t.ctx.Done():
	}
}

// track returns the connection as a stream that is closed with the transport, or closes it and returns nil.
func (t *transport) track(conn net.Conn, inbound bool) *stream {
	s := &stream{Conn: conn, transport: t, inbound: inbound, left: maxStream}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil || inbound && t.inbound >= maxStreams {
		conn.Close()
		return nil
	}
	t.open[s] = struct{}{}
	if inbound {
		t.inbound++
	}
	return s
}

func (t *transport) forget(s *stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.open[s]; !ok {
		return
	}
	delete(t.open, s)
	if s.inbound {
		t.inbound--
	}
}

// FinalAdvertiseAddr returns the address that the library is configured to tell others.
func (*transport) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	return advertised(ip, port)
}

func advertised(ip string, port int) (net.IP, int, error) {
	address, err := netip.ParseAddr(ip)
	if err != nil {
		return nil, 0, err
	}
	return address.Unmap().AsSlice(), port, nil
}

// WriteTo sends a packet.
func (t *transport) WriteTo(packet []byte, address string) (time.Time, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return time.Time{}, err
	}
	_, err = t.udp.WriteToUDPAddrPort(packet, to)
	return time.Now(), err
}

// WriteToAddress sends a packet.
func (t *transport) WriteToAddress(packet []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(packet, a.Addr)
}

// PacketCh returns the packets that were received.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// DialTimeout opens a stream.
func (t *transport) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	dialer := net.Dialer{Timeout: max(timeout, time.Millisecond)} // 0 would be no timeout
	conn, err := dialer.DialContext(t.ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := t.track(conn, false)
	if s == nil {
		return nil, net.ErrClosed
	}
	return s, nil
}

// DialAddressTimeout opens a stream.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(a.Addr, timeout)
}

// StreamCh returns the streams that others have opened.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown closes the sockets and all streams, and waits until nothing more is received.
func (t *transport) Shutdown() error {
	t.cancel()
	err := errors.Join(ignoreClosed(t.tcp.Close()), ignoreClosed(t.udp.Close()))
	t.mu.Lock()
	for s := range t.open {
		s.Conn.Close() // its goroutine forgets it
	}
	t.mu.Unlock()
	t.loops.Wait()
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// stream is a connection of which a bounded number of bytes is read.
type stream struct {
	net.Conn
	transport *transport
	inbound   bool
	left      int // bytes; only the one reader uses it
}

// Read fails once too much has been read.
func (s *stream) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, errStreamTooLong
	}
	n, err := s.Conn.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// Write closes the stream if it fails: the library forgets to, when it cannot write the label of a stream that it has opened.
func (s *stream) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	if err != nil {
		_ = s.Close()
	}
	return n, err
}

// Close closes the stream. It may be called twice.
func (s *stream) Close() error {
	s.transport.forget(s)
	return s.Conn.Close()
}
