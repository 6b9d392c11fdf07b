package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/link"
	"colonnade/forwarding/netconn"
)

const (
	// MaxLinkBody is the longest body, in bytes, of a request over a link: with its head, it fits into the window of its stream. A longer one has a connection
	// of its own, since it would wait for the server before it is sent.
	MaxLinkBody = 48 << 10
	// maxLinks is how many links to one target are used at once.
	maxLinks = 4
	// streamsPerLink is how many streams each link to a target has before another one is opened.
	streamsPerLink = 256
	// maxLinkIdle is how long a link without streams is kept.
	maxLinkIdle = time.Minute
	// maxLinkAge is how long a link takes new requests, unless a certificate expires before.
	maxLinkAge = time.Hour
	// linkRetry is how long no link is opened to a target after one has broken, or could not be opened.
	linkRetry = 5 * time.Second
	// linkTimeout bounds the time to open a link.
	linkTimeout = 10 * time.Second
)

// links are the links of a transport. Requests over links need no connection each: see package link. A target has no link at first: the first requests go over
// ordinary connections, while one goroutine opens it.
type links struct {
	transport *Transport
	logger    *slog.Logger
	flusher   link.Flusher
	conns     sync.Pool // of *conn, without streams

	running sync.WaitGroup  // goroutines of links
	ctx     context.Context // of those that open links
	cancel  context.CancelFunc

	mu      sync.Mutex // guards the fields below
	targets map[Target]*linkSet
	closed  bool
}

// linkSet are the links to one target. The mutex of links guards it.
type linkSet struct {
	all     []*targetLink
	opening bool
	retryAt time.Time // no link is opened before
}

type targetLink struct {
	*link.Link
	trustVersion uint64    // of the certificates at the handshake
	until        time.Time // when it ends with its last stream: a certificate expires, or it is old
	idleSince    time.Time // zero = it had streams when expire looked last
	binaryHeads  bool      // the server reads requests with binary heads
}

// take returns the link with the fewest streams for a request, or nil if there is none. It may begin to open one for later requests.
func (l *links) take(r *Request) *targetLink {
	version := r.Target.Peer.Version()
	l.mu.Lock()
	defer l.mu.Unlock()
	set := l.targets[r.Target]
	if set == nil {
		set = new(linkSet)
		l.targets[r.Target] = set
	}
	var best *targetLink
	fewest, usable := 0, 0
	for _, one := range set.all {
		if one.trustVersion != version || !one.Usable() {
			continue
		}
		usable++
		if n := one.Streams(); best == nil || n < fewest {
			best, fewest = one, n
		}
	}
	if best == nil || fewest >= streamsPerLink && usable < maxLinks {
		l.openLocked(set, r)
	}
	return best
}

// openLocked begins to open a link, unless that is under way or has just failed.
func (l *links) openLocked(set *linkSet, r *Request) {
	if set.opening || l.closed || !set.retryAt.IsZero() && time.Now().Before(set.retryAt) {
		return
	}
	set.opening = true
	opener := r.Link()
	l.running.Go(func() { l.run(set, opener) })
}

// run opens a link, and serves it until it ends.
func (l *links) run(set *linkSet, opener *Request) {
	one, err := l.open(opener)
	l.mu.Lock()
	set.opening = false
	if err == nil && l.closed {
		_ = one.Close()
	}
	if err == nil {
		set.all, set.retryAt = append(set.all, one), time.Time{}
	} else {
		set.retryAt = time.Now().Add(linkRetry)
	}
	l.mu.Unlock()
	if err != nil {
		l.logger.Debug("cannot open a link: requests use connections of their own", "address", opener.Target.Address, "error", err)
		return
	}
	if err = one.Run(); err != nil {
		l.logger.Warn("a link has broken, and its requests with it", "address", opener.Target.Address, "error", err)
	}
	l.remove(set, one, err)
}

// remove removes a link that has ended with err. If it has broken, the next requests have connections of their own: what breaks links may leave those alone.
func (l *links) remove(set *linkSet, one *targetLink, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		set.retryAt = time.Now().Add(linkRetry)
	}
	for i := range set.all {
		if set.all[i] == one {
			set.all = append(set.all[:i], set.all[i+1:]...)
			break
		}
	}
}

// open opens a link with a request, which asks for the upgrade.
func (l *links) open(opener *Request) (*targetLink, error) {
	opener.OpensLink = true
	opener.Deadline = time.Now().Add(linkTimeout)
	opener.ConnectTimeout = linkTimeout
	version := opener.Target.Peer.Version() // before the handshake, so that a change during it counts as one after it
	ctx, cancel := context.WithDeadline(l.ctx, opener.Deadline)
	defer cancel()
	response, err := l.transport.Do(ctx, opener, ReadOptions{})
	if err != nil {
		return nil, err
	}
	defer response.Close()
	conn, ok := response.TakeConn()
	if !ok {
		return nil, fmt.Errorf("%w: it answers %d", errNoLink, response.HTTPStatus())
	}
	conn.Deadline = time.Time{}
	until := earliest(time.Now().Add(maxLinkAge), opener.Target.Peer.Expires(), conn.PeerExpires())
	return &targetLink{Link: netconn.NewLink(conn, nil, nil, &l.flusher), trustVersion: version, until: until,
		binaryHeads: response.Header(hop.HeaderHeads) == hop.BinaryHeads}, nil
}

// earliest returns the earliest of several times, of which zero ones do not count.
func earliest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

var errNoLink = errors.New("the server does not open a link")

// expire ends links that are old or have been idle for too long, or whose certificates have been replaced or have expired, with the last of their streams. Further
// requests get another link.
func (l *links) expire(now time.Time) {
	for _, one := range l.expired(now) {
		one.GoAway()
	}
}

// expired returns the links to end, and forgets targets without links.
func (l *links) expired(now time.Time) (old []*targetLink) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for to, set := range l.targets {
		for _, one := range set.all {
			switch {
			case one.trustVersion != to.Peer.Version() || !now.Before(one.until):
				old = append(old, one)
			case one.Streams() > 0:
				one.idleSince = time.Time{}
			case one.idleSince.IsZero():
				one.idleSince = now
			case now.Sub(one.idleSince) > maxLinkIdle:
				old = append(old, one)
			}
		}
		if len(set.all) == 0 && !set.opening && now.After(set.retryAt) {
			delete(l.targets, to)
		}
	}
	return old
}

// close ends all links, and returns when they have ended. Streams that are still open break.
func (l *links) close() {
	l.cancel()
	for _, one := range l.takeAll() {
		_ = one.Close()
	}
	l.running.Wait()
}

// takeAll returns all links, and lets no further ones be opened.
func (l *links) takeAll() (all []*targetLink) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, set := range l.targets {
		all = append(all, set.all...)
	}
	return all
}

func (l *links) stats() (stats LinkStats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, set := range l.targets {
		for _, one := range set.all {
			stats.Links++
			stats.Streams += one.Streams()
		}
	}
	return stats
}

// overLink returns a connection over a new stream of a link.
func (t *Transport) overLink(l *targetLink) *conn {
	if c, ok := t.links.conns.Get().(*conn); ok {
		c.ReuseOver(l.NewStream())
		c.unanswered, c.binaryHead = nil, l.binaryHeads
		return c
	}
	c := &conn{Conn: netconn.NewOverStream(l.NewStream()), transport: t, binaryHead: l.binaryHeads}
	c.Flusher, c.cancel, c.sent = &t.links.flusher, c.Cancel, c.releaseHead
	return c
}

// releaseOverLink takes back a connection of overLink after a response that was read to its end. It does not after a stream of events, whose steps other
// goroutines may call, nor if a context or an Abort has ended the exchange.
func (resp *Response) releaseOverLink(c *conn) {
	resp.transport.releaseReader(c)
	c.Tick, c.Received = nil, nil
	if resp.stream == nil && !resp.connCancelled {
		resp.transport.links.conns.Put(c)
	}
}
