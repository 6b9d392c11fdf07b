package refusals_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// drips are parts of a request in which a client sends a byte a second.
var drips = []struct {
	name, begin string // sent at once
	piece       string // sent every second
}{
	{"first line", "", "POST"},
	{"head", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Slow: ", "a"},
	{"second head", "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\nPOST /v1/chat/completions HTTP/1.1\r\nX-Slow: ", "a"},
	{"short body", dripHead + "Content-Length: 100\r\n\r\n", "x"},
	{"longer body", dripHead + "Content-Length: 65536\r\n\r\n", "x"},
	{"largest body", dripHead + "Content-Length: 16777216\r\n\r\n", "x"},
	{"body that came nearly", dripHead + "Content-Length: 30000\r\n\r\n" + strings.Repeat("x", 20000), "x"},
	{"one chunk", dripHead + "Transfer-Encoding: chunked\r\n\r\n1000000\r\n", "x"},
	{"small chunks", dripHead + "Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"},
	{"chunk size", dripHead + "Transfer-Encoding: chunked\r\n\r\n", "0"},
	{"chunk extension", dripHead + "Transfer-Encoding: chunked\r\n\r\n1;", "a"},
	{"trailer", dripHead + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Slow: ", "a"},
	{"nothing", "", ""},
}

const dripHead = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

// dripped is how a connection ended.
type dripped struct {
	name   string
	peer   bool // at a colo server
	answer wiretest.Response
	how    string // see wiretest.Conn.End
	took   time.Duration
}

// drip sends a byte a second until the response or the end. begun is called once the first bytes were sent.
func drip(f *fleettest.Fleet, name, begin, piece string, peer bool, begun func()) (d dripped) {
	address := f.Entry.Address
	if peer {
		address, _ = f.PeerListener()
	}
	w := wiretest.Dial(f.T, address)
	defer w.Close()
	began := time.Now()
	stop := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		_, err := io.WriteString(w, begin)
		begun()
		for n := 0; err == nil && piece != ""; n++ {
			next := piece
			if name != "small chunks" {
				next = piece[n%len(piece):][:1]
			}
			_, err = io.WriteString(w, next)
			select {
			case <-time.After(time.Second):
			case <-stop:
				return
			}
		}
	})
	d.name, d.peer = name, peer
	if d.answer = w.Read(); name == "second head" && d.answer.Status == 200 {
		d.answer = w.Read()
	}
	close(stop)
	sending.Wait()
	d.how, d.took = w.End(), time.Since(began)
	return d
}

// A client that sends a byte a second, anywhere in a request, gets a 408 and is disconnected after ten seconds. Clients on slow
// links and all others are served as usual. In a soak, many of them are measured: others take no longer beside them, and a
// body that was announced takes memory only as it comes.
func TestDrippingUploads(t *testing.T) {
	t.Parallel()
	_, documents := fleettest.StartStubEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		if testkit.Soak() {
			time.Sleep(20 * time.Millisecond)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"x","choices":[]}`)
	})
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4)}, documents)
	peers := 2 // in the first two ways: further ones need a token
	if _, found := f.PeerListener(); !found {
		peers = 0
	}
	all := testkit.AtScale(1, 160)*len(drips) + peers
	f.WatchShared(8 + all) // fasthttp keeps their goroutines for some seconds
	alone := measure(t, f)
	heap := fleettest.LiveBytes()
	begun, ended := make(chan struct{}, all), make(chan dripped, all)
	for i := range all {
		go func() {
			d := drips[i%len(drips)] // all is a multiple of their number, plus the peers
			ended <- drip(f, d.name, d.begin, d.piece, i >= all-peers, func() { begun <- struct{}{} })
		}()
	}
	var honest sync.WaitGroup
	honest.Go(func() { uploadSlowly(f, "Content-Length: 14336", "%s", "") })
	honest.Go(func() { uploadSlowly(f, "Transfer-Encoding: chunked", "400\r\n%s\r\n", "0\r\n\r\n") })
	for range all {
		<-begun
	}
	beside := measure(t, f)
	each := (fleettest.LiveBytes() - heap) / int64(all)
	for range all {
		checkDripped(t, <-ended)
	}
	honest.Wait()
	t.Logf("%d dripping clients, %d KiB each; others take %v without them, %v beside them", all, each>>10, alone, beside)
	if testkit.Soak() && (each > 128<<10 || beside > alone*12/10) { // a buffer for the head and one for the body
		t.Error("they take too much memory, or slow others down")
	}
}

// measure sends requests, and returns the median of their times.
func measure(t *testing.T, f *fleettest.Fleet) time.Duration {
	took := f.Latencies(t, testkit.AtScale(20, 1500))
	return took[len(took)/2]
}

// checkDripped compares how one connection ended.
func checkDripped(t testing.TB, d dripped) {
	t.Helper()
	latest := testkit.Timeout
	if testkit.Soak() {
		latest = 10*time.Second + 500*time.Millisecond
	}
	if d.took < 9*time.Second || d.took > latest || d.how != "closed" {
		t.Errorf("%s: the connection ended after %v: %s", d.name, d.took, d.how)
	}
	if d.name == "nothing" {
		if d.answer.Status != 0 {
			t.Errorf("%s: answered %d without a request", d.name, d.answer.Status)
		}
		return
	}
	if d.answer.Status != 408 || d.answer.Err != nil || d.answer.Header.Get("Connection") != "close" {
		t.Errorf("%s: answer %d %v %v", d.name, d.answer.Status, d.answer.Header, d.answer.Err)
	} else if e := d.answer.APIError(t); e.Number != 40801 || e.Code != "request_timeout" || (e.RequestID == "") != d.peer {
		t.Errorf("%s: error %+v", d.name, e)
	}
}

// uploadSlowly sends a body of 14 KiB at a KiB a second, which in all takes longer than the limit for 8 KiB.
func uploadSlowly(f *fleettest.Fleet, framing, piece, end string) {
	body := fleettest.ChatBody(1, false)
	body = strings.Replace(body, "hello", strings.Repeat("a", 14<<10-len(body)+len("hello")), 1)
	w := wiretest.Dial(f.T, f.Entry.Address)
	_ = w.SetDeadline(time.Now().Add(2 * testkit.Timeout))
	w.Send("POST /v1/chat/completions HTTP/1.1", []string{"Host: x", "Content-Type: application/json", framing}, "")
	for ; body != ""; body = body[1<<10:] {
		if _, err := fmt.Fprintf(w, piece, body[:1<<10]); err != nil {
			f.T.Errorf("slow upload with %q: %v", framing, err)
			return
		}
		time.Sleep(time.Second)
	}
	_, _ = io.WriteString(w, end)
	if a := w.Read(); a.Status != 200 || a.Err != nil {
		f.T.Errorf("slow upload with %q: %d %v %.200q", framing, a.Status, a.Err, a.Body)
	}
}

// openDescriptors returns the number of this process's open files.
func openDescriptors(t testing.TB) int {
	t.Helper()
	dir, err := os.Open("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(0)
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
