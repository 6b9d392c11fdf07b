package onebox_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"colonnade/internal/etcdtest"
	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// slowEngineListen makes the test binary an engine whose streams do not end, at this address.
const slowEngineListen = "ONEBOX_TEST_SLOW_ENGINE_LISTEN"

// The benchmarks of memory hold many requests at once. Entry, colo server and engine are processes of their own.
const (
	heldRequests = 4000
	heldBody     = 1 << 10         // bytes of each request's body
	settleTime   = 8 * time.Second // from the last request to the measurement
)

// runSlowEngine answers until the process is killed. A stream begins with two chunks. If the body has max_tokens, a chunk follows each time
// that so many milliseconds have passed, with the time in nanoseconds at which it was written.
func runSlowEngine(listen string) {
	ln, err := net.Listen("tcp", listen)
	for err == nil {
		var c net.Conn
		if c, err = ln.Accept(); err == nil {
			go serveSlowly(c)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func serveSlowly(c net.Conn) {
	defer c.Close()
	br := bufio.NewReaderSize(c, 2<<10)
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if !bytes.Contains(body, []byte(`"stream":true`)) {
			const answer = `{"data":[{"id":"m"}],"choices":[{"index":0,"message":{"role":"assistant","content":"word"},"finish_reason":"stop"}]}`
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
			continue
		}
		every := 0
		if _, rest, ok := bytes.Cut(body, []byte(`"max_tokens":`)); ok {
			_, _ = fmt.Sscan(string(rest), &every)
		}
		streamSlowly(c, time.Duration(every)*time.Millisecond)
		return
	}
}

// streamSlowly writes chunks until the connection ends; every = 0 means no more than two.
func streamSlowly(c net.Conn, every time.Duration) {
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		return
	}
	for written := 0; ; written++ {
		event := fmt.Sprintf(`data: {"id":"x","object":"chat.completion.chunk","created":%d,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}`+"\n\n", time.Now().UnixNano())
		if _, err := fmt.Fprintf(c, "%x\r\n%s\r\n", len(event), event); err != nil {
			return
		}
		switch {
		case written == 0:
		case every == 0:
			_, _ = io.Copy(io.Discard, c)
			return
		default:
			time.Sleep(every)
		}
	}
}

// startSlowEngine starts runSlowEngine in a process of its own.
func startSlowEngine(b *testing.B) (address string) {
	b.Helper()
	address = etcdtest.FreeAddress(b)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), slowEngineListen+"="+address)
	testkit.Start(b, cmd)
	testkit.WaitFor(b, "the engine to listen", func() bool {
		status, _ := testkit.Get("http://" + address)
		return status == 200
	})
	return address
}

// heldFleet is an entry and a colo server in front of a slow engine. Model m has room for all requests, and model narrow for one.
type heldFleet struct {
	*proctest.Fleet
	nodes map[string]*proctest.Node
	bases map[string]nodeMemory
}

func startHeldFleet(b *testing.B, engine string) *heldFleet {
	documents := "---\nkey: accounts/open\nlimits: {concurrent: 10000}\n---\nkey: models/m\npool: bench\ntimeouts: {connect: 30s, idle: 10m, total: 1h}\n---\nkey: pools/bench\npermits: {per_endpoint: 10000}\n" +
		"---\nkey: endpoints/ams/bench\nurl: http://" + engine + "\npool: bench\nengine: openai\nconcurrency: 10000\n" +
		"---\nkey: models/narrow\npool: narrow\ntimeouts: {connect: 30s, idle: 10m, first_byte: 10m, total: 1h}\n" +
		"---\nkey: pools/narrow\nqueue: {limit: 10000, per_account: 10000, bytes: 1GiB, max_wait: 10m}\n" +
		"---\nkey: endpoints/ams/narrow\nurl: http://" + engine + "/narrow\npool: narrow\nengine: openai\nconcurrency: 1\n"
	f := proctest.Start(b, proctest.Config{Documents: documents, Environment: []string{"COLONNADE_MAX_CONNECTIONS_PER_IP=30000", "COLONNADE_MAX_CONNECTIONS=30000"}})
	h := &heldFleet{Fleet: f, nodes: map[string]*proctest.Node{"entry": f.Entries[0], "colo": f.Servers[0]}}
	awaitGateway(b, "fleet", f.Entries[0].Address)
	return h
}

// nodeMemory is the memory of a process in KiB.
type nodeMemory struct{ resident, heap, stacks float64 }

// memory returns the memory of a node: resident as it is, and of the heap what is left after a collection.
func (f *heldFleet) memory(b *testing.B, name string) (m nodeMemory) {
	b.Helper()
	n := f.nodes[name]
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", n.PID()))
	if err != nil {
		b.Fatal(err)
	}
	_, page := n.Get("/debug/pprof/heap?debug=1&gc=1")
	m.resident = figureAfter(b, string(rollup), "Rss:")
	m.heap = figureAfter(b, page, "# HeapAlloc =") / 1024
	m.stacks = figureAfter(b, page, "# Stack =") / 1024
	return m
}

// figureAfter returns the number that follows a label in a text.
func figureAfter(b *testing.B, text, label string) (figure float64) {
	b.Helper()
	_, rest, _ := strings.Cut(text, label)
	if _, err := fmt.Sscan(rest, &figure); err != nil {
		b.Fatalf("no %q: %v", label, err)
	}
	return figure
}

// rest notes the memory of the nodes as it is without requests.
func (f *heldFleet) rest(b *testing.B) {
	b.Helper()
	f.bases = map[string]nodeMemory{}
	for name := range f.nodes {
		f.bases[name] = f.memory(b, name)
	}
}

// report reports how much more memory the nodes have than at rest, for each of so many requests. It writes profiles to the directory that
// ONEBOX_TEST_PROFILES names, if it does.
func (f *heldFleet) report(b *testing.B, unit string, requests int) {
	b.Helper()
	for name, base := range f.bases {
		now := f.memory(b, name)
		g := nodeMemory{(now.resident - base.resident) / float64(requests), (now.heap - base.heap) / float64(requests), (now.stacks - base.stacks) / float64(requests)}
		b.ReportMetric(g.resident, name+"-KiB/"+unit)
		b.ReportMetric(g.heap, name+"-heap-KiB/"+unit)
		b.ReportMetric(g.stacks, name+"-stacks-KiB/"+unit)
		if dir := os.Getenv("ONEBOX_TEST_PROFILES"); dir != "" {
			for _, profile := range []string{"heap", "goroutine"} {
				_, page := f.nodes[name].Get("/debug/pprof/" + profile)
				_ = os.WriteFile(dir+"/"+unit+"-"+name+"."+profile, []byte(page), 0o600)
			}
		}
	}
}

// heldRequest returns a request for an answer that does not end.
func heldRequest(model string, every time.Duration) string {
	head := fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"`, model, every.Milliseconds())
	body := head + strings.Repeat("a", max(heldBody-len(head)-len(`"}]}`), 0)) + `"}]}`
	return "POST /v1/chat/completions HTTP/1.1\r\nHost: fleet\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// held are connections with a request each.
type held struct {
	b       *testing.B
	address string
	request string
	n       int
	waits   bool        // no answer is awaited before the next connection
	each    func(i int) // called after each read of connection i but the first; nil = not

	begun   atomic.Int64 // answers
	ended   atomic.Bool  // or failed, which is reported once
	conns   []net.Conn
	reading sync.WaitGroup
}

// start opens the connections, eight at a time, and returns the function that closes them.
func (h *held) start() (end func()) {
	h.conns = make([]net.Conn, h.n)
	next := make(chan int)
	var opening sync.WaitGroup
	for range 8 {
		opening.Go(func() {
			for i := range next {
				h.note(i, h.open(i))
			}
		})
	}
	for i := range h.n {
		next <- i
	}
	close(next)
	opening.Wait()
	return func() {
		h.ended.Store(true)
		for _, c := range h.conns {
			if c != nil {
				c.Close()
			}
		}
		h.reading.Wait()
	}
}

func (h *held) note(i int, err error) {
	if err != nil && !h.ended.Swap(true) {
		h.b.Errorf("request %d: %v", i, err)
	}
}

func (h *held) open(i int) error {
	c, err := net.Dial("tcp", h.address)
	if err != nil {
		return err
	}
	h.conns[i] = c
	if _, err := io.WriteString(c, h.request); err != nil {
		return err
	}
	if !h.waits {
		if err := h.readFirst(c); err != nil {
			return err
		}
	}
	h.reading.Go(func() { h.note(i, h.read(i, c)) })
	return nil
}

func (h *held) readFirst(c net.Conn) error {
	var piece [512]byte
	n, err := c.Read(piece[:])
	if err == nil && !bytes.HasPrefix(piece[:n], []byte("HTTP/1.1 200 ")) {
		err = fmt.Errorf("%.200q", piece[:n])
	}
	if err == nil {
		h.begun.Add(1)
	}
	return err
}

// read reads until the connection ends.
func (h *held) read(i int, c net.Conn) (err error) {
	if h.waits {
		err = h.readFirst(c)
	}
	var piece [512]byte
	for err == nil {
		if _, err = c.Read(piece[:]); err == nil && h.each != nil {
			h.each(i)
		}
	}
	return err
}

// BenchmarkOpenStreams is the memory that each node has for an open stream: one that is silent, and one with a chunk each second, which is shared with
// others (see relay.Relay).
func BenchmarkOpenStreams(b *testing.B) {
	engine := startSlowEngine(b)
	for _, c := range []struct {
		name  string
		every time.Duration
	}{{"silent", 0}, {"slow", time.Second}} {
		b.Run(c.name, func(b *testing.B) {
			f := startHeldFleet(b, engine)
			for b.Loop() {
				f.rest(b)
				end := (&held{b: b, address: f.Entries[0].Address, request: heldRequest("m", c.every), n: heldRequests}).start()
				time.Sleep(settleTime)
				f.report(b, "stream", heldRequests)
				end()
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkWaiting is the memory that each node has for a request that waits for a permit, with its connection and its body of 1 KiB, and that of an
// entry for a connection that is idle. The colo server has a connection for each request that waits, too.
func BenchmarkWaiting(b *testing.B) {
	engine := startSlowEngine(b)
	b.Run("idle", func(b *testing.B) {
		f := startHeldFleet(b, engine)
		for b.Loop() {
			f.rest(b)
			end := (&held{b: b, address: f.Entries[0].Address, request: "GET /health/live HTTP/1.1\r\nHost: fleet\r\n\r\n", n: heldRequests}).start()
			time.Sleep(settleTime)
			f.report(b, "connection", heldRequests)
			end()
		}
		b.ReportMetric(0, "ns/op")
	})
	b.Run("waiting", func(b *testing.B) {
		f := startHeldFleet(b, engine)
		first := (&held{b: b, address: f.Entries[0].Address, request: heldRequest("narrow", 0), n: 1}).start()
		for b.Loop() {
			f.rest(b)
			end := (&held{b: b, address: f.Entries[0].Address, request: heldRequest("narrow", 0), n: heldRequests, waits: true}).start()
			testkit.WaitFor(b, "all requests to wait", func() bool { return f.waiting() == heldRequests || b.Failed() })
			time.Sleep(settleTime)
			f.report(b, "request", heldRequests)
			end()
		}
		first()
		b.ReportMetric(0, "ns/op")
	})
}

// waiting returns the number of requests in the queues of the colo server.
func (f *heldFleet) waiting() (sum int) {
	_, page := f.nodes["colo"].Get("/metrics")
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "inference_queue_length{") {
			n, _ := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			sum += int(n)
		}
	}
	return sum
}

const (
	manyStreamsEvery = time.Second
	manyStreamsFor   = 20 * time.Second
)

// BenchmarkManyStreams holds as many streams as the limit of open files allows, at most 10 000: a node has two files for each. An error of any fails it.
// It reports the p99 of the gaps between two chunks of a stream beside that of streams that clients have directly from the engine.
func BenchmarkManyStreams(b *testing.B) {
	engine := startSlowEngine(b)
	f := startHeldFleet(b, engine)
	n := manyStreams(b)
	for b.Loop() {
		direct := gaps(b, engine, n)
		through := gaps(b, f.Entries[0].Address, n)
		b.ReportMetric(float64(n), "streams")
		b.ReportMetric(float64(direct.Microseconds())/1000, "engine-gap-p99-ms")
		b.ReportMetric(float64(through.Microseconds())/1000, "fleet-gap-p99-ms")
		b.ReportMetric(float64(through)/float64(direct), "ratio")
	}
	b.ReportMetric(0, "ns/op")
}

// gaps returns the p99 of the gaps between two chunks of streams.
func gaps(b *testing.B, address string, streams int) time.Duration {
	b.Helper()
	all, last := make([][]time.Duration, streams), make([]time.Time, streams)
	var measuring atomic.Bool
	end := (&held{b: b, address: address, request: heldRequest("m", manyStreamsEvery), n: streams, each: func(i int) {
		now := time.Now()
		if measuring.Load() && !last[i].IsZero() {
			all[i] = append(all[i], now.Sub(last[i]))
		}
		last[i] = now
	}}).start()
	time.Sleep(settleTime)
	measuring.Store(true)
	time.Sleep(manyStreamsFor)
	measuring.Store(false)
	end()
	sorted := slices.Sorted(slices.Values(slices.Concat(all...)))
	if len(sorted) == 0 {
		b.Fatal("no gap was measured")
	}
	return sorted[len(sorted)*99/100]
}

// manyStreams returns the number of streams for BenchmarkManyStreams.
func manyStreams(b *testing.B) int {
	b.Helper()
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		b.Fatal(err)
	}
	const others = 200
	return int(min(10_000, (files.Cur-others)/2))
}
