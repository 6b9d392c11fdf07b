package cmd_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/internal/testkit"
)

// socket is a client's raw connection, on which a reset differs from an end.
type socket struct {
	net.Conn
	br *bufio.Reader
}

func dial(address string) (*socket, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(2 * testkit.Timeout))
	return &socket{Conn: c, br: bufio.NewReader(c)}, nil
}

// ask sends a chat completion and returns the response's head. The body must be read before the next request.
func (s *socket) ask(id string, tokens int, stream bool) (*http.Response, error) {
	body := fmt.Sprintf(`{"model":"tiny","stream":%v,"max_tokens":%d,"messages":[]}`, stream, tokens)
	_, err := fmt.Fprintf(s, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"X-Request-Id: %s\r\nContent-Length: %d\r\n\r\n%s", testKey, id, len(body), body)
	if err != nil {
		return nil, err
	}
	return http.ReadResponse(s.br, nil)
}

// plain sends a request and reads the whole response.
func (s *socket) plain(id string) (status int, body string, last bool, err error) {
	r, err := s.ask(id, 1, false)
	if err != nil {
		return 0, "", true, err
	}
	text, err := io.ReadAll(r.Body)
	return r.StatusCode, string(text), r.Close, err
}

// stream is a stream that runs when a node is asked to stop, and how it ended.
type stream struct {
	*socket
	id     string
	answer *http.Response
	text   string
	err    error
}

// open starts a stream, if used on a connection that has served a request before.
func (f *processes) open(id string, tokens int, used bool) (*stream, error) {
	c, err := dial(f.entry.address)
	if err != nil {
		return nil, err
	}
	f.t.Cleanup(func() { c.Close() })
	if used {
		if status, body, _, err := c.plain("before-" + id); status != 200 || err != nil {
			return nil, fmt.Errorf("the request before a stream: %d %w %s", status, err, body)
		}
	}
	s := &stream{socket: c, id: id}
	if s.answer, err = c.ask(id, tokens, true); err == nil && s.answer.StatusCode != 200 {
		err = fmt.Errorf("a stream has the status %d", s.answer.StatusCode)
	}
	return s, err
}

// openMany starts streams, half of them short, and half of either on used connections.
func (f *processes) openMany(prefix string, n int) []*stream {
	f.t.Helper()
	streams := make([]*stream, n)
	var all errgroup.Group
	all.SetLimit(20)
	for i := range streams {
		all.Go(func() (err error) {
			tokens := shortStream
			if i%2 == 0 {
				tokens = longStream
			}
			streams[i], err = f.open(fmt.Sprint(prefix, i), tokens, i%4 < 2)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		f.t.Fatal(err)
	}
	return streams
}

// read reads the stream to its end, and if connection is set, also the connection.
func (s *stream) read(connection bool) {
	text, err := io.ReadAll(s.answer.Body)
	if s.text, s.err = string(text), err; err == nil && connection {
		if rest, err := io.ReadAll(s.br); err != nil || len(rest) > 0 {
			s.err = fmt.Errorf("after the response %q: %w", rest, err)
		}
	}
	s.Close()
}

// readMany reads all streams at once, and returns how many completed, and how many ended by an error event of the drain. Any
// other end is an error.
func readMany(t *testing.T, streams []*stream, connection bool) (whole, drained int) {
	t.Helper()
	var all sync.WaitGroup
	for _, s := range streams {
		all.Go(func() { s.read(connection) })
	}
	all.Wait()
	for _, s := range streams {
		done := strings.HasSuffix(s.text, "data: [DONE]\n\n")
		_, last, _ := strings.Cut(s.text, `data: {"error":`)
		switch {
		case s.err == nil && done:
			whole++
		case errors.Is(s.err, io.ErrUnexpectedEOF) && !done && strings.Contains(last, `"reason":"draining"`):
			drained++
		default:
			t.Errorf("%s ended with %v, %q", s.id, s.err, s.text[max(0, len(s.text)-300):])
		}
	}
	if t.Logf("%d streams completed, %d were drained", whole, drained); drained == 0 {
		t.Error("no stream outlasted the drain")
	}
	return whole, drained
}

// finals counts the final events of a node by the client's request id, and by outcome.
func finals(t *testing.T, m *member, kind analytics.Kind, prefix string) (byID map[string]int, byOutcome map[analytics.Outcome]int) {
	t.Helper()
	byID, byOutcome = map[string]int{}, map[analytics.Outcome]int{}
	for e, err := range journal.ReadDir(m.dir) {
		if err != nil {
			t.Error(err)
		}
		if e.Phase == analytics.PhaseEnd && e.Kind == kind && strings.HasPrefix(e.ClientRequestID, prefix) {
			byID[e.ClientRequestID]++
			byOutcome[e.Outcome]++
		}
	}
	return byID, byOutcome
}

// wantFinals checks that each stream has one final event, with the outcome that its client saw.
func wantFinals(t *testing.T, m *member, kind analytics.Kind, streams []*stream, whole, drained int) {
	t.Helper()
	byID, byOutcome := finals(t, m, kind, "stream-")
	for _, s := range streams {
		if n := byID[s.id]; n != 1 {
			t.Errorf("%s has %d final events of kind %s, want 1", s.id, n, kind)
		}
	}
	if byOutcome[analytics.OutcomeCompleted] != whole || byOutcome[analytics.OutcomeDrained] != drained {
		t.Errorf("%s: outcomes %v, want %d completed and %d drained", kind, byOutcome, whole, drained)
	}
}

// drainLayout is a fleet whose streams take half a minute, and short ones three seconds.
func drainLayout(colos ...string) layout {
	return layout{colos: colos, slots: 400, engine: []string{"-ttft", "5ms", "-itl", "400ms"}, node: []string{"-drain", "5s"}}
}

const (
	shortStream, longStream = 8, 64
	manyStreams             = 200
)

// A draining entry reports itself not ready while it still serves; each stream completes or ends by an error event with the
// reason; no connection is reset; each request has one final event.
func TestEntryDrainsStreams(t *testing.T) {
	t.Parallel()
	f := startFleet(t, drainLayout("ams"))
	streams := f.openMany("stream-", manyStreams)
	idle, err := dial(f.entry.address)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	probes := make(chan []int)
	ready := make(chan struct{})
	go func() { probes <- probe(f.entry.address, ready) }()
	<-ready
	ended := make(chan error, 1)
	go func() { ended <- f.entry.Stop(syscall.SIGTERM) }()
	whole, drained := readMany(t, streams, true)
	if err := <-ended; err != nil {
		t.Errorf("the entry ended with %v", err)
	}
	if seen := <-probes; len(seen) < 3 || seen[0] != 503 {
		t.Errorf("a load balancer saw %v from the start of the drain on, want several times 503", seen)
	}
	if rest, err := io.ReadAll(idle.br); err != nil || len(rest) > 0 {
		t.Errorf("an idle connection ended with %q, %v", rest, err)
	}
	wantFinals(t, f.entry, analytics.KindRequest, streams, whole, drained)
}

// probe checks readiness like a load balancer until the port is closed, and returns the statuses from the first failure on.
// It closes ready after some checks.
func probe(address string, ready chan struct{}) (seen []int) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for n := 0; ; n++ {
		if n == 3 {
			close(ready)
		}
		r, err := client.Get("http://" + address + "/health/ready")
		if err != nil {
			return seen
		}
		r.Body.Close()
		if r.StatusCode != http.StatusOK {
			seen = append(seen, r.StatusCode)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// A draining colo server is first replaced in the plans of entries by another colo; then its streams end as those of an entry.
func TestColoDrainsStreams(t *testing.T) {
	t.Parallel()
	f := startFleet(t, drainLayout("ams", "fra"))
	streams := f.openMany("stream-", manyStreams)
	ended := make(chan error, 1)
	go func() { ended <- f.colos["ams"].Stop(syscall.SIGTERM) }()
	f.waitServers(1)
	testkit.WaitFor(t, "the draining server to be unready", func() bool { // it announces the drain first
		status, _ := testkit.Get("http://" + f.colos["ams"].admin + "/health/ready")
		return status == http.StatusServiceUnavailable
	})
	for range 5 {
		if status, body := chat(f.entry.address, testKey, false); status != 200 {
			t.Errorf("a new request: %d %s", status, body)
		}
	}
	whole, drained := readMany(t, streams, false)
	if err := <-ended; err != nil {
		t.Errorf("the colo ended with %v", err)
	}
	if _, page := testkit.Get("http://" + f.entry.admin + "/debug/fleet"); strings.Contains(page, "servers/ams/") {
		t.Error("it is still registered")
	}
	wantFinals(t, f.colos["ams"], analytics.KindInference, streams, whole, drained)
	f.leaveProperly(f.entry)
	wantFinals(t, f.entry, analytics.KindRequest, streams, whole, drained)
}

func (f *processes) leaveProperly(m *member) {
	f.t.Helper()
	if err := m.Stop(syscall.SIGTERM); err != nil {
		f.t.Errorf("%s ended with %v", m.binary, err)
	}
}

// The second signal ends a node at once, with that signal's status. Its next process closes the open events as crashed.
func TestSecondSignalEndsNodeAtOnce(t *testing.T) {
	t.Parallel()
	l := drainLayout("ams")
	l.node = []string{"-drain", "10m"}
	f := startFleet(t, l)
	for _, c := range []struct {
		node *member
		kind analytics.Kind
	}{{f.colos["ams"], analytics.KindInference}, {f.entry, analytics.KindRequest}} {
		f.waitServers(1)
		prefix := "two-signals-" + string(c.kind) + "-"
		f.openMany(prefix, 10)
		_ = c.node.Signal(syscall.SIGTERM)
		testkit.WaitFor(t, "the drain to begin", func() bool { return strings.Contains(c.node.Output(), "draining") })
		var exit *exec.ExitError
		if err := c.node.Stop(syscall.SIGTERM); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
			t.Errorf("%s ended with %v, want the signal", c.node.binary, err)
		}
		c.node.start()
		f.ready(c.node)
		byID, byOutcome := finals(t, c.node, c.kind, prefix)
		if len(byID) != 10 || byOutcome[analytics.OutcomeCrashed] != 10 {
			t.Errorf("events of %d requests, %v; want 10 crashed", len(byID), byOutcome)
		}
	}
}

// rawClients send requests without a pause, half of them over connections that they keep, and count the results.
type rawClients struct {
	address string
	stop    chan struct{}
	all     sync.WaitGroup

	mu   sync.Mutex // guards the field below
	seen map[string]int
}

// quietLimit is how long a client may be silent before an entry with -drain 4s closes its connection.
const quietLimit = 400 * time.Millisecond

// errLate is the fault of a slow machine, which did not send a request in time.
var errLate = errors.New("late")

func startRawClients(address string, n int) *rawClients {
	c := &rawClients{address: address, stop: make(chan struct{}), seen: map[string]int{}}
	for worker := range n {
		c.all.Go(func() { c.send(fmt.Sprintf("raw-client-%d", worker), worker%2 == 0) })
	}
	return c
}

func (c *rawClients) send(id string, keeps bool) {
	var s *socket
	var sent time.Time // the last time that the server may have received something
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		var err error
		if s == nil {
			sent = time.Now()
			if s, err = dial(c.address); errors.Is(err, syscall.ECONNREFUSED) {
				return // the entry has stopped
			}
		}
		status, body, last := 0, "", true
		if err == nil {
			before := sent
			sent = time.Now()
			status, body, last, err = s.plain(id)
			if (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) && time.Since(before) >= quietLimit {
				err = errLate
			}
		}
		c.note(status, body, err)
		if s != nil && (last || !keeps || err != nil) {
			s.Close()
			s = nil
		}
	}
}

func (c *rawClients) note(status int, body string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.seen[err.Error()]++
	case status == 200:
		c.seen["served"]++
	case status == 503 && strings.Contains(body, `"reason":"draining"`):
		c.seen["draining"]++
	default:
		c.seen[fmt.Sprint(status, body)]++
	}
}

func (c *rawClients) served() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen["served"]
}

// end waits until all clients have stopped by themselves, or stops them.
func (c *rawClients) end(stop bool) map[string]int {
	if stop {
		close(c.stop)
	}
	c.all.Wait()
	return c.seen
}

func (f *processes) waitServed(c *rawClients, more int) {
	f.t.Helper()
	before := c.served()
	testkit.WaitFor(f.t, "requests to be served", func() bool { return c.served() >= before+more })
}

// Restarting one colo server after the other fails no request.
func TestRollingRestartOfColos(t *testing.T) {
	t.Parallel()
	f := startFleet(t, layout{colos: []string{"ams", "fra"}, slots: 4, engine: []string{"-ttft", "5ms", "-itl", "1ms"}, node: []string{"-drain", "5s"}})
	clients := startRawClients(f.entry.address, 8)
	for _, name := range []string{"ams", "fra", "ams"} {
		f.waitServed(clients, 100)
		f.leaveProperly(f.colos[name])
		f.waitServed(clients, 100)
		f.colos[name].start()
		f.waitServers(2)
	}
	if seen := clients.end(true); len(seen) != 1 || seen["served"] == 0 {
		t.Errorf("the clients saw %v, want only served requests", seen)
	}
}

// A client that sends requests until an entry has stopped is served, then gets 503, then finds the port closed; no connection
// is reset, and no response is lost.
func TestEntryEndsUnderLoad(t *testing.T) {
	t.Parallel()
	f := startFleet(t, layout{colos: []string{"ams"}, slots: 8, engine: []string{"-ttft", "5ms", "-itl", "1ms"}, node: []string{"-drain", "4s"}})
	clients := startRawClients(f.entry.address, 8)
	f.waitServed(clients, 100)
	f.leaveProperly(f.entry)
	seen := clients.end(false)
	t.Logf("the clients saw %v", seen)
	answered := seen["served"] + seen["draining"]
	delete(seen, errLate.Error()) // if the entry has answered one nonetheless, the outcomes below show it
	if delete(seen, "served"); len(seen) > 1 || len(seen) == 1 && seen["draining"] == 0 {
		t.Errorf("beside responses the clients saw %v", seen)
	}
	_, byOutcome := finals(t, f.entry, analytics.KindRequest, "raw-client-")
	if n := byOutcome[analytics.OutcomeCompleted] + byOutcome[analytics.OutcomeRefused]; n != answered || len(byOutcome) > 2 {
		t.Errorf("outcomes %v", byOutcome)
	}
}
