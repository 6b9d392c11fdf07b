package query

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"colonnade/analytics/journal"
)

// Bounds of a page.
const (
	MaxReaders = 8                // requests that a node answers at once
	MaxBytes   = 64 << 20         // of one answer
	maxTime    = 20 * time.Second // of one answer
	maxFollow  = 10 * time.Minute // of one that follows
	readRate   = 32 << 20         // bytes a second that all requests together read from the disk

	followInterval = 200 * time.Millisecond
	keepAlive      = 10 * time.Second // an empty line shows that a node without events lives
)

// Headers of an answer. All but the first two come behind the body.
const (
	HeaderNode     = "X-Colonnade-Node"
	HeaderProcess  = "X-Colonnade-Process"   // random; answers from several addresses with the same one are those of one node
	HeaderEnd      = "X-Colonnade-End"       // why it ended, one of the constants below; absent: the answer was cut
	HeaderPosition = "X-Colonnade-Position"  // for the parameter after of the next request
	HeaderBad      = "X-Colonnade-Bad-Lines" // number of corrupt lines that were left out
)

// Values of HeaderEnd.
const (
	EndComplete = "complete" // there are no more events for now
	EndBytes    = "bytes"    // as many bytes as one answer may have
	EndTime     = "time"     // as long as one answer may take
	EndStopping = "stopping" // the node is shutting down
)

// Page serves the events of one node as lines of JSON. It is bounded in bytes, in time, in readers and in what it reads a second, so that
// requests do not notice it. It reads segments as any other program would, and takes no lock of the journal.
type Page struct {
	dir, node string
	process   string // see HeaderProcess
	pace      *rate.Limiter
	readers   chan struct{} // has room for each reader
	closed    chan struct{}
	close     func()
}

// NewPage returns the page of a node with a data directory; an empty one keeps no events.
func NewPage(dir, node string) *Page {
	p := &Page{dir: dir, node: node, process: rand.Text(), pace: rate.NewLimiter(readRate, 1<<20), readers: make(chan struct{}, MaxReaders), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

// Close ends the answers that follow. The others end soon.
func (p *Page) Close() { p.close() }

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(HeaderNode, p.node)
	w.Header().Set(HeaderProcess, p.process)
	if p.dir == "" {
		http.Error(w, "this node keeps no events: it was started without -data-dir", http.StatusNotFound)
		return
	}
	q, err := parsePageQuery(r.URL.Query(), time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case p.readers <- struct{}{}:
		defer func() { <-p.readers }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, fmt.Sprintf("%d others read the events of this node: try again in a moment", MaxReaders), http.StatusServiceUnavailable)
		return
	}
	limit := maxTime
	if q.follow {
		limit = maxFollow
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	a := answer{page: p, query: q, out: bufio.NewWriterSize(w, 32<<10), flush: http.NewResponseController(w)}
	if err := a.open(ctx); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Trailer", HeaderEnd+", "+HeaderPosition+", "+HeaderBad)
	_ = a.flush.SetWriteDeadline(time.Now().Add(limit + maxTime)) // not in tests without a connection
	defer func() { _ = a.flush.SetWriteDeadline(time.Time{}) }()
	_ = a.flush.Flush() // the head, so that a reader learns at once that the node lives
	end, err := a.write(ctx)
	if err != nil {
		end = "error: " + strconv.QuoteToASCII(err.Error())
	}
	w.Header().Set(HeaderEnd, end)
	w.Header().Set(HeaderPosition, a.reader.Position())
	w.Header().Set(HeaderBad, strconv.Itoa(a.bad))
}

// answer is one answer of the page.
type answer struct {
	page   *Page
	query  *pageQuery
	reader *journal.Reader
	out    *bufio.Writer
	flush  *http.ResponseController
	bytes  int // written
	bad    int // lines
}

// open moves the reader to where the answer begins.
func (a *answer) open(ctx context.Context) error {
	q := a.query
	a.reader = journal.NewReader(journal.ReaderConfig{
		Dir: a.page.dir, Node: a.page.node, Begins: q.filter.Begins, Since: q.filter.Since, Until: q.filter.Until, Want: q.filter.Matcher(),
		Pace: func(n int) error { return a.page.pace.WaitN(ctx, n) },
	})
	switch {
	case q.after != "":
		return a.reader.ContinueFrom(q.after)
	case q.last >= 0:
		return a.reader.SkipToLast(q.last)
	}
	return nil
}

// write writes events until there are no more, or until the answer has to end, and returns why it ends.
func (a *answer) write(ctx context.Context) (end string, err error) {
	written := time.Now()
	for {
		before := a.bytes
		if end, err = a.writeNew(ctx); err != nil || end != EndComplete {
			return end, err
		}
		if a.bytes == before && a.query.follow && time.Since(written) >= keepAlive {
			_ = a.out.WriteByte('\n') // Flush returns its error
		}
		if a.out.Buffered() > 0 {
			written = time.Now()
		}
		if err := a.out.Flush(); err != nil {
			return "", err
		}
		if !a.query.follow {
			return EndComplete, nil
		}
		if err := a.flush.Flush(); err != nil {
			return "", err
		}
		select {
		case <-time.After(followInterval):
		case <-a.page.closed:
			return EndStopping, nil
		case <-ctx.Done():
			return EndTime, nil
		}
	}
}

// writeNew writes the events that were not read yet.
func (a *answer) writeNew(ctx context.Context) (end string, err error) {
	for line, err := range a.reader.Lines() {
		switch {
		case errors.Is(err, journal.ErrTorn), errors.Is(err, journal.ErrCorrupt):
			a.bad++
			continue
		case err != nil && ctx.Err() != nil:
			return EndTime, a.out.Flush()
		case err != nil:
			return "", errors.Join(err, a.out.Flush())
		}
		n, _ := a.out.Write(line.JSON) // Flush returns its error
		_ = a.out.WriteByte('\n')
		if a.bytes += n + 1; a.bytes >= a.query.bytes {
			return EndBytes, a.out.Flush()
		}
		if ctx.Err() != nil {
			return EndTime, a.out.Flush()
		}
	}
	return EndComplete, nil
}
