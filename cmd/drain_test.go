package cmd

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

// socket is a client's bare connection, on which a reset can be told from an end.
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

// ask sends a chat completion and returns the answer's head. The answer must be read before the next is asked for.
func (s *socket) ask(id string, tokens int, stream bool) (*http.Response, error) {
	body := fmt.Sprintf(`{"model":"tiny","stream":%v,"max_tokens":%d,"messages":[]}`, stream, tokens)
	_, err := fmt.Fprintf(s, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"X-Request-Id: %s\r\nContent-Length: %d\r\n\r\n%s", testKey, id, len(body), body)
	if err != nil {
		return nil, err
	}
	return http.ReadResponse(s.br, nil)
}

// plain asks and reads the whole answer.
func (s *socket) plain(id string) (status int, body string, last bool, err error) {
	r, err := s.ask(id, 1, false)
	if err != nil {
		return 0, "", true, err
	}
	text, err := io.ReadAll(r.Body)
	return r.StatusCode, string(text), r.Close, err
}

// stream is one that runs when a node is asked to end, and what became of it.
type stream struct {
	*socket
	id     string
	answer *http.Response
	text   string
	err    error
}

// open begins a stream; with used, on a connection that has served a request before.
func (f *processes) open(id string, tokens int, used bool) (*stream, error) {
	c, err := dial(f.entry.address)
	if err != nil {
		return nil, err
	}
	f.t.Cleanup(func() { c.Close() })
	if used {
		if status, body, _, err := c.plain("before-" + id); status != 200 || err != nil {
			return nil, fmt.Errorf("a request before a stream: %d %w %s", status, err, body)
		}
	}
	s := &stream{socket: c, id: id}
	if s.answer, err = c.ask(id, tokens, true); err == nil && s.answer.StatusCode != 200 {
		err = fmt.Errorf("a stream was answered with %d", s.answer.StatusCode)
	}
	return s, err
}

// openMany begins streams, half of them short, and half of either on used connections.
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

// read reads the stream to its end, and with it the connection, if that ends too.
func (s *stream) read(connection bool) {
	text, err := io.ReadAll(s.answer.Body)
	if s.text, s.err = string(text), err; err == nil && connection {
		if rest, err := io.ReadAll(s.br); err != nil || len(rest) > 0 {
			s.err = fmt.Errorf("behind the answer %q: %w", rest, err)
		}
	}
	s.Close()
}

// readMany reads all streams at once, and returns how many ended properly, and how many by an error event. Another end is
// an error.
func readMany(t *testing.T, streams []*stream, connection bool) (whole, told int) {
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
			told++
		default:
			t.Errorf("%s ended with %v, %q", s.id, s.err, s.text[max(0, len(s.text)-300):])
		}
	}
	if t.Logf("%d finished, %d were ended", whole, told); told == 0 {
		t.Error("time was never over")
	}
	return whole, told
}

// finals counts the final events of a node by what the client called its requests, and by outcome.
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

// wantFinals expects one final event for each stream, with outcomes that are as the clients saw them.
func wantFinals(t *testing.T, m *member, kind analytics.Kind, streams []*stream, whole, told int) {
	t.Helper()
	byID, byOutcome := finals(t, m, kind, "stream-")
	for _, s := range streams {
		if n := byID[s.id]; n != 1 {
			t.Errorf("%s has %d final events of kind %s, want 1", s.id, n, kind)
		}
	}
	if byOutcome[analytics.OutcomeCompleted] != whole || byOutcome[analytics.OutcomeDrained] != told {
		t.Errorf("%s: outcomes %v, want %d completed and %d drained", kind, byOutcome, whole, told)
	}
}

// drainLayout is a fleet whose streams last for half a minute, or for three seconds, if they are short.
func drainLayout(colos ...string) layout {
	return layout{colos: colos, slots: 400, engine: []string{"-ttft", "5ms", "-itl", "400ms"}, node: []string{"-drain", "5s"}}
}

const (
	shortStream, longStream = 8, 64
	manyStreams             = 200
)

// An entry with many streams: readiness goes off while it still serves; every stream finishes or hears why it does not;
// no connection is reset; every request has its one final event.
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
	whole, told := readMany(t, streams, true)
	if err := <-ended; err != nil {
		t.Errorf("the entry ended with %v", err)
	}
	if seen := <-probes; len(seen) < 3 || seen[0] != 503 {
		t.Errorf("a balancer saw %v after the first sign of the drain, want that it was told several times", seen)
	}
	if rest, err := io.ReadAll(idle.br); err != nil || len(rest) > 0 {
		t.Errorf("an idle connection ended with %q, %v", rest, err)
	}
	wantFinals(t, f.entry, analytics.KindRequest, streams, whole, told)
}

// probe asks for readiness like a balancer, until nobody answers, and returns what it saw from the first refusal on.
// ready is closed once it has asked some times.
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

// The same for a colo, whose work another one takes over: entries hear of it before anything else changes.
func TestColoDrainsStreams(t *testing.T) {
	t.Parallel()
	f := startFleet(t, drainLayout("ams", "fra"))
	streams := f.openMany("stream-", manyStreams)
	ended := make(chan error, 1)
	go func() { ended <- f.colos["ams"].Stop(syscall.SIGTERM) }()
	f.waitServers(1)
	if status, body := testkit.Get("http://" + f.colos["ams"].admin + "/health/ready"); status != http.StatusServiceUnavailable {
		t.Errorf("the colo drains, and says %d %q of its readiness", status, body)
	}
	for range 5 {
		if status, body := chat(f.entry.address, testKey, false); status != 200 {
			t.Errorf("a new request: %d %s", status, body)
		}
	}
	whole, told := readMany(t, streams, false)
	if err := <-ended; err != nil {
		t.Errorf("the colo ended with %v", err)
	}
	if _, page := testkit.Get("http://" + f.entry.admin + "/debug/fleet"); strings.Contains(page, "servers/ams/") {
		t.Error("it has not left etcd")
	}
	wantFinals(t, f.colos["ams"], analytics.KindInference, streams, whole, told)
	f.leaveProperly(f.entry)
	wantFinals(t, f.entry, analytics.KindRequest, streams, whole, told)
}

func (f *processes) leaveProperly(m *member) {
	f.t.Helper()
	if err := m.Stop(syscall.SIGTERM); err != nil {
		f.t.Errorf("%s ended with %v", m.binary, err)
	}
}

// The second signal ends a node at once, by that signal; what it had open is ended by its next run.
func TestTwoSignals(t *testing.T) {
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
			t.Errorf("%s ended with %v, want by the signal", c.node.binary, err)
		}
		c.node.start()
		f.ready(c.node)
		byID, byOutcome := finals(t, c.node, c.kind, prefix)
		if len(byID) != 10 || byOutcome[analytics.OutcomeCrashed] != 10 {
			t.Errorf("events of %d requests, %v; want 10 crashed", len(byID), byOutcome)
		}
	}
}

// crowd is clients that send requests without a pause, every second of them over one connection for as long as it lasts,
// and count what comes of them.
type crowd struct {
	address string
	stop    chan struct{}
	all     sync.WaitGroup

	mu   sync.Mutex // guards the field below
	seen map[string]int
}

// crowdQuiet is after how long of silence an entry with a grace of 4 s takes a client for one that sends nothing more.
const crowdQuiet = 400 * time.Millisecond

// errLate is no fault but of this machine, which was too slow to send a request in time.
var errLate = errors.New("late")

func startCrowd(address string, n int) *crowd {
	c := &crowd{address: address, stop: make(chan struct{}), seen: map[string]int{}}
	for worker := range n {
		c.all.Go(func() { c.send(fmt.Sprintf("crowd-of-%d", worker), worker%2 == 0) })
	}
	return c
}

func (c *crowd) send(id string, keeps bool) {
	var s *socket
	var heard time.Time // by which the server has heard of us
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		var err error
		if s == nil {
			heard = time.Now()
			if s, err = dial(c.address); errors.Is(err, syscall.ECONNREFUSED) {
				return // nobody is there any more
			}
		}
		status, body, last := 0, "", true
		if err == nil {
			before := heard
			heard = time.Now()
			status, body, last, err = s.plain(id)
			if (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) && time.Since(before) >= crowdQuiet {
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

func (c *crowd) note(status int, body string, err error) {
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

func (c *crowd) served() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen["served"]
}

// end waits until the crowd has gone by itself, or stops it.
func (c *crowd) end(stop bool) map[string]int {
	if stop {
		close(c.stop)
	}
	c.all.Wait()
	return c.seen
}

func (f *processes) waitServed(c *crowd, more int) {
	f.t.Helper()
	before := c.served()
	testkit.WaitFor(f.t, "requests to be served", func() bool { return c.served() >= before+more })
}

// Colos that are restarted one after the other cost nobody anything.
func TestRollingRestartOfColos(t *testing.T) {
	t.Parallel()
	f := startFleet(t, layout{colos: []string{"ams", "fra"}, slots: 4, engine: []string{"-ttft", "5ms", "-itl", "1ms"}, node: []string{"-drain", "5s"}})
	crowd := startCrowd(f.entry.address, 8)
	for _, name := range []string{"ams", "fra", "ams"} {
		f.waitServed(crowd, 100)
		f.leaveProperly(f.colos[name])
		f.waitServed(crowd, 100)
		f.colos[name].start()
		f.waitServers(2)
	}
	if seen := crowd.end(true); len(seen) != 1 || seen["served"] == 0 {
		t.Errorf("the clients saw %v, want nothing but answers", seen)
	}
}

// Whoever sends requests to an entry until its end is served, then told, then refused; nobody is reset, and no answer is
// lost.
func TestEntryEndsUnderLoad(t *testing.T) {
	t.Parallel()
	f := startFleet(t, layout{colos: []string{"ams"}, slots: 8, engine: []string{"-ttft", "5ms", "-itl", "1ms"}, node: []string{"-drain", "4s"}})
	crowd := startCrowd(f.entry.address, 8)
	f.waitServed(crowd, 100)
	f.leaveProperly(f.entry)
	seen := crowd.end(false)
	t.Logf("the clients saw %v", seen)
	answered := seen["served"] + seen["draining"]
	delete(seen, errLate.Error()) // if one was answered nonetheless, the outcomes below tell
	if delete(seen, "served"); len(seen) > 1 || len(seen) == 1 && seen["draining"] == 0 {
		t.Errorf("beside answers the clients saw %v", seen)
	}
	_, byOutcome := finals(t, f.entry, analytics.KindRequest, "crowd-of-")
	if n := byOutcome[analytics.OutcomeCompleted] + byOutcome[analytics.OutcomeRefused]; n != answered || len(byOutcome) > 2 {
		t.Errorf("outcomes %v", byOutcome)
	}
}
