package onebox_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"colonnade/forwarding"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/onebox"
	"colonnade/openai"
)

// standIn is a colo server that says what a test wants, and remembers what it was asked.
type standIn struct {
	*httptest.Server

	mu    sync.Mutex // guards the fields below
	asked []request
}

type request struct {
	header http.Header
	hop    forwarding.Hop
}

// startStandIn starts the one server of a colo. verdict is its answer to a request that may wait so; empty = it serves.
func startStandIn(t testing.TB, colo, node string, verdict func(forwarding.Wait) string) (s *standIn, documents string) {
	s = &standIn{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		hop := readHop(t, r.Header)
		s.mu.Lock()
		s.asked = append(s.asked, request{r.Header.Clone(), hop})
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if v := verdict(hop.Wait); v != "" {
			w.Header().Set("x-colonnade-verdict", v)
			w.WriteHeader(http.StatusTooManyRequests)
		} else {
			w.Header().Set("x-colonnade-attempts", "1") // else it would be no engine's answer
		}
		fmt.Fprintf(w, `{"from":%q}`, colo)
	}))
	t.Cleanup(s.Close)
	return s, fmt.Sprintf("key: colos/%s\nregion: nowhere\n---\nkey: servers/%s/%s\naddress: %s\nboot: b\nstate: active\nprotocol: {min: 1, max: 1}\n---\n",
		colo, colo, node, strings.TrimPrefix(s.URL, "http://"))
}

// readHop reads a token as anybody can; only its signature needs the key.
func readHop(t testing.TB, h http.Header) (hop forwarding.Hop) {
	parts := strings.Split(h.Get("x-colonnade-hop"), ".")
	if len(parts) != 3 {
		t.Errorf("no hop token: %v", h)
		return hop
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(payload, &hop)
	}
	if err != nil {
		t.Errorf("cannot read the hop token: %v", err)
	}
	return hop
}

// waits is how a stand-in was asked, in order.
func (s *standIn) waits() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.asked {
		all = append(all, string(r.hop.Wait))
	}
	return all
}

// Every colo of the plan is asked once, and then one for the wait, if it has room for that; and if that was in vain,
// the next that has. If all are full, the client gets one answer, with the least time to come back in.
func TestAllColosFull(t *testing.T) {
	t.Parallel()
	full := func(retryAfter int) string {
		return fmt.Sprintf("ooc;reason=queue_full;number=42902;retry_after_ms=%d", retryAfter)
	}
	busy := func(expected int) string {
		return fmt.Sprintf("ooc;reason=busy;number=42902;retry_after_ms=9000;expected_ms=%d;may_wait=1", expected)
	}
	for _, c := range []struct {
		name   string
		says   [3]string // to a request that may not wait for long
		last   string    // to one that may; empty = it is served
		queue  string    // the client's header
		waits  [3]string // how each colo is asked
		status int
		want   string // in the body
	}{
		{"all full", [3]string{full(7000), full(3000), full(5000)}, full(5000), "", [3]string{"spill", "spill", "full"}, 429, `"retry_after_ms":3000`},
		{"one has room to wait", [3]string{full(7000), busy(900), full(5000)}, "", "", [3]string{"spill", "spill full", "spill"}, 200, `"from":"two"`},
		{"the shortest wait", [3]string{busy(900), busy(800), busy(200)}, "", "", [3]string{"spill", "spill", "spill full"}, 200, `"from":"three"`},
		{"the wait was too long", [3]string{busy(900), busy(800), full(4000)}, "ooc;reason=queue_timeout;number=42902;retry_after_ms=6000;may_wait=1", "",
			[3]string{"spill full", "spill full", "spill"}, 429, `"reason":"queue_timeout","retry_after_ms":4000`},
		{"never", [3]string{busy(900), busy(800), full(4000)}, "", "never", [3]string{"never", "never", "never"}, 429, `"retry_after_ms":4000`},
		{"wait", [3]string{busy(900), busy(800), full(4000)}, "", "wait", [3]string{"full", "", ""}, 200, `"from":"one"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var colos [3]*standIn
			documents := "key: models/elsewhere\npool: demo\nrouting: {steps: [{colos: [one, two, three]}]}\n---\n"
			for i, name := range []string{"one", "two", "three"} {
				var own string
				colos[i], own = startStandIn(t, name, name+"-1", func(w forwarding.Wait) string {
					if w == forwarding.WaitFull {
						return c.last
					}
					return c.says[i]
				})
				documents += own
			}
			f := startFleet(t, onebox.Config{Engine: quick(4), Colos: []string{"ams"}}, strings.TrimSuffix(documents, "---\n"))
			f.watchBeside(8)
			var headers []string
			if c.queue != "" {
				headers = []string{"x-colonnade-queue", c.queue}
			}
			a := f.chat(`{"model":"elsewhere","messages":[]}`, headers...)
			if a.Status != c.status || !strings.Contains(a.Body, c.want) {
				t.Errorf("answer %d %q, want %d with %s", a.Status, a.Body, c.status, c.want)
			}
			for i, s := range colos {
				if got := strings.Join(s.waits(), " "); got != c.waits[i] {
					t.Errorf("colo %d was asked %q, want %q", i+1, got, c.waits[i])
				}
			}
			if a.Status != 429 {
				return
			}
			if e := a.error(t); e.Number != 42902 || e.Code != "out_of_capacity" || e.Type != "rate_limit_error" ||
				e.Message != openai.OutOfCapacity(e.Reason, 0).Message || a.Header.Get("x-colonnade-reason") != e.Reason {
				t.Errorf("error %+v %v", e, a.Header)
			}
			seconds := fmt.Sprint((a.error(t).RetryAfterMS + 999) / 1000)
			if a.Header.Get("retry-after") != seconds || a.Header.Get("retry-after-ms") != fmt.Sprint(a.error(t).RetryAfterMS) {
				t.Errorf("headers say another time than the body: %v", a.Header)
			}
		})
	}
}

// A colo that is full spills over to the next; when all are, a request waits, in one of them, for the next slot; when
// nobody lets it wait, it is refused at once and reaches no engine.
func TestSpillOver(t *testing.T) {
	f := startFleet(t, onebox.Config{Engine: quick(2)}, "")
	f.watch(8)
	f.fault(simengine.FaultStallStream, 0)
	first := f.fill(t, 2)
	if got := []int{f.engine("ams").Stats().Running, f.engine("fra").Stats().Running}; !slices.Equal(got, []int{2, 0}) {
		t.Fatalf("running %v, want the first colo to be filled first", got)
	}
	f.clearFaults()
	a := f.chat(chatBody(8, false))
	if a.Status != 200 || a.Header.Get("x-colonnade-colo") != "fra" || a.Header.Get("x-colonnade-attempts") != "1" {
		t.Errorf("beside a full colo: %d %v, want 200 from fra at the first attempt", a.Status, a.Header)
	}
	f.fault(simengine.FaultStallStream, 0)
	second := f.fill(t, 2)
	f.clearFaults()
	before := f.arrivals()
	a = f.chat(chatBody(8, false), "x-colonnade-queue", "never")
	if e := a.error(t); a.Status != 429 || e.Number != 42902 || e.Reason != "busy" || e.RetryAfterMS < 1000 || a.Header.Get("x-colonnade-attempts") != "0" {
		t.Errorf("never to queue: %d %+v %v", a.Status, e, a.Header)
	}
	if n := f.arrivals() - before; n != 0 {
		t.Errorf("%d engines were asked for a request that got no permit", n)
	}
	if a = f.chat(chatBody(8, false), "x-colonnade-queue", "perhaps"); a.Status != 400 || a.error(t).Number != 40001 {
		t.Errorf("x-colonnade-queue: perhaps: %d", a.Status)
	}
	waiting := make(chan answer, 1)
	go func() { waiting <- f.chat(chatBody(8, false)) }()
	testkit.WaitFor(t, "the request to wait", func() bool {
		return strings.Contains(f.metrics("ams")+f.metrics("fra"), `inference_queue_length{pool="demo"} 1`)
	})
	first()
	a = <-waiting
	if a.Status != 200 || a.Header.Get("x-colonnade-queued-ms") == "0" || a.Header.Get("x-colonnade-attempts") != "1" {
		t.Errorf("after the wait: %d %v", a.Status, a.Header)
	}
	second()
}

// metrics reads what a colo server shows.
func (f *testFleet) metrics(colo string) string {
	f.t.Helper()
	for _, n := range f.Colos {
		if n.Colo != colo {
			continue
		}
		r, err := f.client.Get("http://" + n.Admin + "/metrics")
		if err != nil {
			f.t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			f.t.Fatal(err)
		}
		return string(text)
	}
	f.t.Fatalf("no colo %s", colo)
	return ""
}
