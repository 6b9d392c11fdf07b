package refusals_test

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// limited are requests beyond a limit, as they stand on the wire. Those beyond a limit of time are never finished.
var limited = []struct {
	name, Conn string
	status     int
	code       string // the reason in the metric, too
}{
	{"head", "GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("a", 20<<10) + "\r\n\r\n", 431, "headers_too_large"},
	{"head of a probe", "GET /health HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: 1\r\n", 100) + "\r\n", 431, "headers_too_large"},
	{"fields", "GET /v1/models HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: 1\r\n", 100) + "\r\n", 431, "headers_too_large"},
	{"not HTTP", "what is this\r\n\r\n", 400, "invalid_request"},
	{"no host", "GET /v1/models HTTP/1.1\r\n\r\n", 400, "invalid_request"},
	{"JSON depth", posted(`{"model":"demo-chat","x":` + strings.Repeat("[", 201) + strings.Repeat("]", 201) + `}`), 400, "invalid_request"},
	{"body", posted(`{"model":"small","messages":[],"x":"` + strings.Repeat("a", 1<<10) + `"}`), 413, "request_too_large"},
	{"body of any model", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 16777217\r\n\r\n", 413, "request_too_large"},
	{"parts of a form", formOf(257), 400, "invalid_request"},
	{"method", "PUT /v1/models HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 405, "method_not_allowed"},
	{"time of a head", "GET /v1/models HTTP/1.1\r\nHost: x\r\n", 408, "request_timeout"},
	{"time of a short body", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", 408, "request_timeout"},
	{"time of a body", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{", 408, "request_timeout"},
	{"time of a chunk", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", 408, "request_timeout"},
}

// posted is a chat completion on the wire.
func posted(body string) string {
	return "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// formOf is a transcription with a form of so many parts.
func formOf(parts int) string {
	body := strings.Repeat("--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n", parts) + "--XX--\r\n"
	return "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=XX\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// counted returns the series of one of the entry's metrics by their label "reason".
func counted(f *fleettest.Fleet, name string) map[string]float64 {
	f.T.Helper()
	by := map[string]float64{}
	for line := range strings.Lines(f.EntryMetrics()) {
		if rest, ok := strings.CutPrefix(line, name+`{reason="`); ok {
			reason, value, _ := strings.Cut(rest, `"} `)
			var err error
			if by[reason], err = strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil {
				f.T.Error(err)
			}
		}
	}
	return by
}

// A request beyond a limit gets an error that names the limit, and is counted in the metrics, also where no handler sees it.
func TestLimitsAreNamedAndCounted(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}, MaxConnsPerIP: 40},
		"key: models/small\nupstream_name: demo-chat\npool: demo\nmax_body: 1KiB")
	f.WatchShared(48)
	want := counted(f, "colonnade_refusals_total")
	var all sync.WaitGroup
	for _, l := range limited {
		want[l.code]++
		all.Go(func() {
			w := wiretest.Dial(t, f.Entry.Address)
			defer w.Close()
			_, _ = w.Write([]byte(l.Conn)) // or as much of it as is accepted
			a := w.Read()
			if e := a.APIError(t); a.Status != l.status || e.Code != l.code || a.Err != nil {
				t.Errorf("%s: answered %d %q %v, want %d %q", l.name, a.Status, e.Code, a.Err, l.status, l.code)
			}
		})
	}
	all.Wait()
	expectCounted(f, "colonnade_refusals_total", want)

	want["too_many_connections"]++
	var open []net.Conn
	for range 40 {
		open = append(open, dialFrom(f, "127.0.0.9"))
	}
	late := wiretest.NewConn(t, dialFrom(f, "127.0.0.9"))
	late.Send("GET /v1/models HTTP/1.1", []string{"Host: x"}, "")
	a := late.Read()
	if e := a.APIError(t); a.Status != 429 || e.Code != "rate_limit_exceeded" || e.Reason != "too_many_connections" || a.Header.Get("Retry-After") == "" {
		t.Errorf("connection 41: %d %+v %v", a.Status, e, a.Header)
	}
	if how := late.End(); how != "closed" {
		t.Errorf("connection 41 ended: %s", how)
	}
	if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 {
		t.Errorf("another address: %d", a.Status)
	}
	expectCounted(f, "colonnade_refusals_total", want)
	expectCounted(f, "colonnade_connections_refused_total", map[string]float64{"address": 1, "total": 0})
	testkit.WaitFor(t, "those 40 connections and a few to be counted", func() bool {
		n := f.Metric(f.Entry.Admin, "colonnade_connections")
		return n >= 40 && n <= 45
	})
	for _, c := range open {
		c.Close()
	}
	testkit.WaitFor(t, "room for another connection", func() bool { return f.Metric(f.Entry.Admin, "colonnade_connections") < 40 })
	again := wiretest.NewConn(t, dialFrom(f, "127.0.0.9"))
	again.Send("GET /v1/models HTTP/1.1", []string{"Host: x"}, "")
	if a := again.Read(); a.Status != http.StatusOK {
		t.Errorf("after some were closed: %d", a.Status)
	}
	again.Close()
}

// expectCounted compares all series of a metric.
func expectCounted(f *fleettest.Fleet, name string, want map[string]float64) {
	f.T.Helper()
	if got := counted(f, name); fmt.Sprint(got) != fmt.Sprint(want) {
		f.T.Errorf("%s: %v, want %v", name, got, want)
	}
}

// dialFrom connects to the entry from a loopback address. It skips the test if this machine does not have the address.
func dialFrom(f *fleettest.Fleet, address string) net.Conn {
	f.T.Helper()
	testkit.NeedsAddress(f.T, address)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: testkit.Timeout}
	c, err := dialer.Dial("tcp", f.Entry.Address)
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(testkit.Timeout))
	return c
}
