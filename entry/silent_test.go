package entry

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/liveness"
	"colonnade/internal/testkit"
)

// quickLiveness are times by which a test need not wait long.
var quickLiveness = liveness.Timings{
	Sweep: 5 * time.Millisecond, ProbeAfter: 50 * time.Millisecond, GiveUpAfter: 100 * time.Millisecond, ProbeInterval: 50 * time.Millisecond, ProbeTimeout: 100 * time.Millisecond,
}

// silentServer takes connections and requests, and sends nothing.
type silentServer struct {
	address string
	posts   atomic.Int64
	closed  chan struct{} // once the connection of a POST was closed by the other side
}

func startSilentServer(t *testing.T) *silentServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &silentServer{address: ln.Addr().String(), closed: make(chan struct{}, 9)}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go s.read(c)
		}
	}()
	return s
}

func (s *silentServer) read(c net.Conn) {
	defer c.Close()
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	post := r.Method == http.MethodPost
	if post {
		s.posts.Add(1)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.Copy(io.Discard, c)
	if post {
		s.closed <- struct{}{}
	}
}

func (s *silentServer) documents(colo string) string {
	return fmt.Sprintf("---\nkey: colos/%s\nregion: eu\n---\nkey: servers/%[1]s/%[1]s-1\naddress: %s\nboot: x\n", colo, s.address)
}

// A request to a server that has stopped is cancelled there before it is sent to another one. Later requests avoid the server.
func TestRequestLeavesASilentServer(t *testing.T) {
	t.Parallel()
	silent := startSilentServer(t)
	const model = "key: models/m\nretry: {errors: 0}\nrouting: {steps: [{colos: [ams]}, {colos: [fra]}]}\n"
	var served atomic.Int64
	table := tableOf(t, model+silent.documents("ams")+colo(t, "fra", func(w http.ResponseWriter, _ *http.Request) {
		if served.Add(1) == 1 {
			<-silent.closed
		}
		w.Header().Set(hop.HeaderAttempts, "1")
		_, _ = io.WriteString(w, `{}`)
	}))
	url, e := startEntryWith(t, Config{Table: tableFunc(table), Liveness: quickLiveness}, t.TempDir())
	for range 3 {
		if status, answer := chat(t, url, request); status != 200 {
			t.Errorf("answer %d %s", status, answer)
		}
	}
	if n := silent.posts.Load(); n != 1 {
		t.Errorf("the silent server got %d requests", n)
	}
	if u := e.Unresponsive(); len(u) != 1 || u[0].Node != "ams-1" || u[0].Times != 1 {
		t.Errorf("unresponsive: %+v", u)
	}
}

// A request that has nowhere to go waits for its server, however silent that is.
func TestRequestStaysIfItHasNowhereToGo(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	table := tableOf(t, "key: models/m\n"+colo(t, "ams", func(w http.ResponseWriter, _ *http.Request) {
		<-answer
		w.Header().Set(hop.HeaderAttempts, "1")
		_, _ = io.WriteString(w, `{}`)
	}))
	url, e := startEntryWith(t, Config{Table: tableFunc(table), Liveness: quickLiveness}, t.TempDir())
	time.AfterFunc(2*quickLiveness.GiveUpAfter, func() { close(answer) })
	if status, answer := chat(t, url, request); status != 200 {
		t.Errorf("answer %d %s", status, answer)
	}
	if len(e.Unresponsive()) != 0 {
		t.Errorf("unresponsive: %+v", e.Unresponsive())
	}
}

// An expired server that refuses connections is reported as dead.
func TestDeadServerIsReported(t *testing.T) {
	t.Parallel()
	table := tableOf(t, "key: models/m\n---\nkey: colos/ams\nregion: eu\n---\nkey: servers/ams/ams-1\naddress: 127.0.0.1:1\nboot: x\n")
	table.ExpiredLeases = []string{"servers/ams/ams-1"}
	var dead atomic.Pointer[string]
	startEntryWith(t, Config{Table: tableFunc(table), Liveness: quickLiveness, MarkDead: func(keys ...string) { dead.Store(&keys[0]) }}, t.TempDir())
	testkit.WaitFor(t, "the server to be reported as dead", func() bool { return dead.Load() != nil })
	if *dead.Load() != "servers/ams/ams-1" {
		t.Errorf("got %s", *dead.Load())
	}
}
