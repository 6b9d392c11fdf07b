package onebox_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// The benchmark of realtime sessions holds many idle sockets, and then some busy ones, in three ways in one run:
// directly to an engine, through a chain of two bare TCP relays, and through an entry and a colo. Client, engine and
// relays are one process, so the cost of a way is its excess over the direct way. The chain knows no frames, no permits
// and no pings: two hops cannot cost less.
const (
	idleSockets    = 2000
	idleTime       = 16 * time.Second // includes a ping
	busySockets    = 200
	busyMessages   = 250  // in each direction, on each socket
	busySize       = 1280 // 20 ms of speech
	descriptorsFor = 6 * idleSockets
)

// socketEngine accepts handshakes, answers pings and echoes messages, frame by frame.
func socketEngine(b *testing.B) string {
	b.Helper()
	return testkit.Serve(b, func(c net.Conn) {
		br := bufio.NewReaderSize(c, 2<<10)
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if r.Header.Get("Upgrade") == "" { // a health check, or a request for models
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+
			wiretest.AcceptKey(r.Header.Get("Sec-WebSocket-Key"))+"\r\n\r\n")
		echoFrames(c, br)
	})
}

// echoFrames answers a client's frames: a ping with a pong, a close with a close and the end, a message with itself.
func echoFrames(c net.Conn, br *bufio.Reader) {
	var out []byte
	for {
		f, err := wiretest.ReadMasked(br)
		if err != nil {
			return
		}
		if f.Head == wiretest.FinBit|wiretest.OpPong {
			continue
		}
		if f.Head == wiretest.FinBit|wiretest.OpPing {
			f.Head = wiretest.FinBit | wiretest.OpPong
		}
		out = f.AppendUnmasked(out[:0])
		if _, err := c.Write(out); err != nil || f.Head == wiretest.FinBit|wiretest.OpClose {
			return
		}
	}
}

// tcpRelay relays bytes to an address, with a goroutine and 4 KiB for each direction.
func tcpRelay(b *testing.B, to string) string {
	b.Helper()
	return testkit.Serve(b, func(c net.Conn) {
		server, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer server.Close()
		var up sync.WaitGroup
		up.Go(func() {
			carryBare(server, c)
			_ = server.(*net.TCPConn).CloseWrite()
		})
		carryBare(c, server)
		c.Close()
		up.Wait()
	})
}

func carryBare(to, from net.Conn) {
	piece := make([]byte, 4<<10)
	for {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		if _, err := to.Write(piece[:n]); err != nil {
			return
		}
	}
}

// benchSocket is a client's end.
type benchSocket struct {
	net.Conn
	br *bufio.Reader
}

func openSocket(address string) (*benchSocket, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &benchSocket{c, bufio.NewReaderSize(c, 2<<10)}
	_, err = io.WriteString(c, "GET /v1/realtime?model=echo HTTP/1.1\r\nHost: fleet\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	if err != nil {
		c.Close()
		return nil, err
	}
	answer, err := http.ReadResponse(s.br, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		c.Close()
		return nil, fmt.Errorf("the handshake was answered with %v, %v", answer, err)
	}
	return s, nil
}

// openSockets opens n sockets, eight at a time.
func openSockets(b *testing.B, address string, n int) []*benchSocket {
	b.Helper()
	all, turns := make([]*benchSocket, n), make(chan int)
	var hands sync.WaitGroup
	for range 8 {
		hands.Go(func() {
			for i := range turns {
				var err error
				if all[i], err = openSocket(address); err != nil {
					b.Errorf("socket %d: %v", i, err)
				}
			}
		})
	}
	for i := range n {
		turns <- i
	}
	close(turns)
	hands.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return all
}

// socketCost is the cost of one way to the engine.
type socketCost struct {
	heap, stack   float64 // bytes for each idle socket
	idle          float64 // processor time for each idle socket and minute, in µs
	busy          float64 // processor time for each message and its echo, in µs
	messages      float64 // per second
	goroutinesPer float64
}

func measureSockets(b *testing.B, address string) (cost socketCost) {
	before := memoryNow()
	sockets := openSockets(b, address, idleSockets)
	after := memoryNow()
	cost.heap = float64(after.HeapInuse-before.HeapInuse) / idleSockets
	cost.stack = float64(after.StackInuse-before.StackInuse) / idleSockets
	cost.goroutinesPer = float64(after.goroutines-before.goroutines) / idleSockets
	used := cpu()
	time.Sleep(idleTime)
	cost.idle = float64((cpu() - used).Microseconds()) / idleSockets * float64(time.Minute/idleTime)
	var all sync.WaitGroup
	used, began := cpu(), time.Now()
	for _, s := range sockets[:busySockets] {
		all.Go(func() {
			if err := s.talk(); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	cost.busy = float64((cpu() - used).Microseconds()) / (busySockets * busyMessages)
	cost.messages = busySockets * busyMessages / time.Since(began).Seconds()
	for _, s := range sockets {
		_, _ = s.Write(wiretest.CloseFrame(1000, "").Masked())
	}
	for _, s := range sockets {
		_, _ = io.Copy(io.Discard, s.br)
		s.Close()
	}
	return cost
}

// talk sends messages, each when the echo of the last has arrived.
func (s *benchSocket) talk() error {
	message := wiretest.Text(strings.Repeat("*", busySize)).Masked()
	for range busyMessages {
		if _, err := s.Write(message); err != nil {
			return err
		}
		for {
			f, err := wiretest.ReadFrame(s.br)
			if err != nil {
				return err
			}
			if f.Head == wiretest.FinBit|wiretest.OpPing {
				_, _ = s.Write(wiretest.Pong(f.Payload).Masked())
				continue
			}
			break
		}
	}
	return nil
}

type heapNow struct {
	runtime.MemStats
	goroutines int
}

func memoryNow() (m heapNow) {
	time.Sleep(200 * time.Millisecond)
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m.MemStats)
	m.goroutines = runtime.NumGoroutine()
	return m
}

// BenchmarkSockets prints a table of the costs of 2000 idle and 200 busy sessions.
func BenchmarkSockets(b *testing.B) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < descriptorsFor+1000 {
		b.Skipf("the file limit is %d: %d sockets through two hops take %d (ulimit -n)", limit.Cur, idleSockets, descriptorsFor)
	}
	engine := socketEngine(b)
	chain := tcpRelay(b, tcpRelay(b, engine))
	documents := "key: models/echo\ntype: realtime\n---\nkey: accounts/open\nlimits: {concurrent: 4000}\n---\n" +
		"key: pools/echo\npermits: {max_share: 1}\n"
	for n := range 3 { // an endpoint may have 1024 slots
		documents += fmt.Sprintf("---\nkey: endpoints/ams/echo-%d\nurl: http://%s\npool: echo\nconcurrency: 1000\n", n, socketEngine(b))
	}
	f := fleettest.Start(b, onebox.Config{Engine: fleettest.QuickEngine(1), Colos: []string{"ams"}}, documents)
	var costs [3]socketCost
	for b.Loop() {
		for i, address := range []string{engine, chain, f.Entry.Address} {
			costs[i] = measureSockets(b, address)
		}
	}
	printSockets(b, costs)
}

func printSockets(b *testing.B, costs [3]socketCost) {
	table := tabwriter.NewWriter(os.Stderr, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\n\tstraight\tchain adds\tcolonnade adds\tratio\t\n")
	row := func(what, unit, metric string, of func(socketCost) float64) {
		straight := of(costs[0])
		chain, ours := of(costs[1])-straight, of(costs[2])-straight
		b.ReportMetric(ours, "colonnade-"+unit)
		ratio := "-" // a ratio to nearly nothing is meaningless
		if chain > ours/20 {
			ratio = fmt.Sprintf("%.2f", ours/chain)
			b.ReportMetric(ours/chain, metric)
		}
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%.1f\t%s\t\n", what, straight, chain, ours, ratio)
	}
	row("KiB of heap for an idle socket", "heap-KiB/socket", "heap-ratio", func(c socketCost) float64 { return c.heap / 1024 })
	row("KiB of stacks for an idle socket", "stack-KiB/socket", "stack-ratio", func(c socketCost) float64 { return c.stack / 1024 })
	row("goroutines for an idle socket", "goroutines/socket", "goroutines-ratio", func(c socketCost) float64 { return c.goroutinesPer })
	row("CPU µs for an idle socket and minute", "idle-cpu-µs/socket-minute", "idle-cpu-ratio", func(c socketCost) float64 { return c.idle })
	row("CPU µs for a message there and back", "cpu-µs/message", "cpu-ratio", func(c socketCost) float64 { return c.busy })
	fmt.Fprintf(table, "messages a second with %d busy\t%.0f\t%.0f\t%.0f\t%.2f\t\n", busySockets,
		costs[0].messages, costs[1].messages, costs[2].messages, costs[2].messages/costs[1].messages)
	_ = table.Flush()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(costs[2].messages/costs[1].messages, "messages-ratio")
}
