package server

import (
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/link"
	"colonnade/forwarding/netconn"
)

// links are the links of a server: connections of other nodes that carry many exchanges, each as a stream. A worker serves
// each stream: a request with a binary head as an [Exchange], and one in text as a connection with one request. A link counts as one connection with a request: it is never idle, and a drain waits for its end.
//
//	request for a link → AcceptLink: fasthttp hijacks → serve ─ OPEN ─→ worker: serveStream
//	drain: goAway → the clients open no further streams, and each link ends after its last one
type links struct {
	logger  *slog.Logger
	flusher *link.Flusher // may be nil
	limit   *link.Limit   // of streams: as many as connections
	workers workers
	running sync.WaitGroup // goroutines that serve links

	mu     sync.Mutex // guards the fields below
	open   map[*link.Link]struct{}
	ending bool // goAway was called
}

// LinkStats are the numbers of links of a server and of their streams.
type LinkStats struct{ Links, Streams int }

// LinkStats returns how many links and streams are open.
func (s *Server) LinkStats() (stats LinkStats) {
	for _, l := range s.links.all() {
		stats.Links++
		stats.Streams += l.Streams()
	}
	return stats
}

// AcceptLink makes the connection of a request a link, for a request for [hop.PathLink] whose sender was verified. It returns false, and does nothing, if
// the request is not one for a link, or was made over a link.
func (s *Server) AcceptLink(rc *fasthttp.RequestCtx) bool {
	h := &rc.Request.Header
	c := rc.Conn().(*serverConn)
	if !h.ConnectionUpgrade() || string(h.Peek("Upgrade")) != hop.UpgradeLink || c.linked != nil {
		return false
	}
	rc.SetStatusCode(fasthttp.StatusSwitchingProtocols)
	rc.Response.Header.Set("Upgrade", hop.UpgradeLink)
	rc.Response.Header.Set("Connection", "Upgrade")
	if s.handleExchange != nil {
		rc.Response.Header.Set(hop.HeaderHeads, hop.BinaryHeads)
	}
	_ = rc.SetWriteDeadline(time.Now().Add(netconn.WriteStall))
	rc.Hijack(func(nc net.Conn) {
		if len(drainReadAhead(nc, c)) > 0 {
			return // a client waits for the response
		}
		c.keptOpen.Add(1)
		s.links.running.Go(func() { s.links.serve(c) }) // fasthttp frees its memory for the request when this function returns
	})
	return true
}

// serve serves the streams of a link, over the connection c, until it ends.
func (l *links) serve(c *serverConn) {
	defer func() { _ = c.Close() }()
	served := netconn.NewLink(wrapHijacked(c), func(s *link.Stream) { l.workers.give(task{stream: linkedStream{s, c}}) }, l.limit, l.flusher)
	l.add(served)
	defer l.remove(served)
	if err := served.Run(); err != nil {
		l.logger.Debug("link has broken", "from", c.RemoteAddr().String(), "error", err)
	}
}

// add adds a link, which takes no streams after goAway.
func (l *links) add(added *link.Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[*link.Link]struct{}{}
	}
	l.open[added] = struct{}{}
	if l.ending {
		added.GoAway()
	}
}

func (l *links) remove(ended *link.Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, ended)
}

// goAway ends each link after its last stream.
func (l *links) goAway() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
	for open := range l.open {
		open.GoAway()
	}
}

func (l *links) all() []*link.Link {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*link.Link, 0, len(l.open))
	for open := range l.open {
		all = append(all, open)
	}
	return all
}
