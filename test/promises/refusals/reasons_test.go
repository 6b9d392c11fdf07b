package refusals_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
	"colonnade/reasons"
)

// reasonCase is a reason with its cause, and where it is seen.
type reasonCase struct {
	config    onebox.Config
	documents string
	cause     func(*fleettest.Fleet) // nil = the documents suffice
	body      string                 // empty = a short plain chat
	lines     []string
	status    int            // of the response; 0 = its client has left
	kind      analytics.Kind // of the event that has the reason
	metric    string         // that counts it, at the entry; empty = none
}

const (
	refused   = `colonnade_refusals_total{reason="%s"}`
	requestID = "the-request"
	ownChat   = fleettest.StubBody
	ownStream = `{"model":"own","stream":true,"messages":[]}`
)

// Each reason is walked from its cause to the client's response, to the event and to the metric.
func TestEachReason(t *testing.T) {
	t.Parallel()
	cases := causes(t)
	for _, r := range reasons.All() {
		c, ok := cases[r.Reason]
		if !ok {
			if !shown(t, r.Reason) {
				t.Errorf("%s: neither a cause here nor a test elsewhere", r.Reason)
			}
			continue
		}
		t.Run(r.Reason, func(t *testing.T) {
			t.Parallel()
			c.walk(t, r)
		})
	}
}

// elsewhere has the reasons whose cause is inside of one package, with the test files that show them.
var elsewhere = map[string]string{
	"BodyMemory":         "forwarding/server/body_test.go",
	"Starting":           "entry/reasons_test.go",
	"TableChanged":       "entry/reasons_test.go",
	"RoutingLoop":        "colo/listener_test.go",
	"HopLimit":           "colo/listener_test.go",
	"unknown_model":      "colo/appliedtable_test.go",
	"HopTokenReplayed":   "colo/replay_test.go",
	"Moved":              "permits/home_test.go",
	"GrantExpired":       "colo/withdrawn_test.go",
	"Panic":              "colo/panic_test.go",
	"SessionTimeout":     "forwarding/realtime/session_test.go",
	"message_too_big":    "forwarding/realtime/session_test.go",
	"too_many_fragments": "forwarding/realtime/limits_test.go",
	"not_utf8":           "test/promises/release/session_end_test.go",
	"foreign_model":      "test/promises/release/session_end_test.go",
	"protocol_error":     "forwarding/realtime/session_test.go",
	"stalled":            "forwarding/realtime/limits_test.go",
	"silent":             "forwarding/realtime/limits_test.go",
	"Handshake":          "forwarding/realtime/panic_test.go",
	"request_limit":      "test/promises/refusals/rate_limits_test.go",
	"token_limit":        "test/promises/refusals/rate_limits_test.go",
	"budget_spent":       "test/promises/refusals/rate_limits_test.go",
}

// shown reports whether a reason, by its value or as a constant of package reasons, stands in a test that shows it.
func shown(t *testing.T, reason string) bool {
	t.Helper()
	for name, file := range elsewhere {
		word := strings.ToLower(strings.ReplaceAll(reason, "_", ""))
		if strings.ToLower(strings.ReplaceAll(name, "_", "")) != word && !strings.HasPrefix(word, strings.ToLower(name)) {
			continue
		}
		text, err := os.ReadFile("../../../" + file)
		if err != nil {
			t.Error(err)
		}
		return strings.Contains(string(text), name)
	}
	return false
}

func (c reasonCase) walk(t *testing.T, r reasons.Info) {
	f := fleettest.Start(t, c.config, c.documents)
	if c.cause != nil {
		c.cause(f)
	}
	body := c.body
	if body == "" {
		body = fleettest.ChatBody(1, false)
	}
	conn := f.BeginChat(body, append(c.lines, "x-request-id: "+requestID, "Connection: close")...)
	if c.status != 0 {
		text, _ := io.ReadAll(conn.R) // a stream that was cut ends with an error
		if !strings.HasPrefix(string(text), fmt.Sprintf("HTTP/1.1 %d ", c.status)) {
			t.Errorf("the client got %.300q, want status %d", text, c.status)
		}
		if said := strings.Contains(string(text), `"reason":"`+r.Reason+`"`); said != r.Client {
			t.Errorf("the client got %.1000q: it has the reason %v, want %v", text, said, r.Client)
		}
	}
	if c.status == 0 {
		testkit.WaitFor(t, "the request to run", func() bool { return fleettest.InFlight(f.Engine("ams")) == 1 })
	}
	conn.Close()
	if c.kind != "" {
		testkit.WaitFor(t, "the event", func() bool {
			for _, e := range f.FinalEvents(c.kind, requestID) {
				if e.Reason == r.Reason {
					return true
				}
			}
			return false
		})
	}
	if c.metric != "" {
		if n := f.Metric(f.Entry.Admin, fmt.Sprintf(c.metric, r.Reason)); n != 1 {
			t.Errorf("%s is %v, want 1", fmt.Sprintf(c.metric, r.Reason), n)
		}
	}
}

// causes returns how each reason comes about that a fleet can show.
func causes(t *testing.T) map[string]reasonCase {
	block := func(f *fleettest.Fleet) { f.BlockSlots(1) }
	full := func(documents string, lines ...string) reasonCase {
		return reasonCase{
			config: fleettest.OneColo(fleettest.QuickEngine(1)), documents: documents, cause: block, lines: lines,
			status: 429, kind: analytics.KindRequest, metric: refused,
		}
	}
	unavailable := func(documents, body string) reasonCase {
		return reasonCase{
			config: fleettest.OneColo(fleettest.QuickEngine(1)), documents: documents, body: body,
			status: 503, kind: analytics.KindRequest, metric: refused,
		}
	}
	fault := func(fault, timeouts string, status int, kind analytics.Kind) reasonCase {
		return reasonCase{
			config: fleettest.OneColo(fleettest.QuickEngine(1)), documents: "key: models/demo-chat\npool: demo\ntimeouts: {" + timeouts + "}\n",
			cause: func(f *fleettest.Fleet) { f.InjectFault(fault, 0) }, body: fleettest.ChatBody(20, true), status: status, kind: kind,
		}
	}
	stub := func(body string, status int, kind analytics.Kind, answer http.HandlerFunc, lines ...string) reasonCase {
		_, documents := fleettest.StartStubEngine(t, answer)
		return reasonCase{
			config: fleettest.OneColo(fleettest.QuickEngine(1)), documents: documents, body: body, lines: lines, status: status, kind: kind,
		}
	}
	status := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	notFound := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, body)
		}
	}
	account := func(rest string) (documents, line string) {
		documents, authorization := fleettest.AccountWithKey("limited", rest)
		return documents, "Authorization: " + authorization
	}
	none, ofNone := account("limits: {concurrent: 0}")
	one, ofOne := account("limits: {concurrent: 1}")
	lost := func(address string) string {
		return "key: colos/lost\nregion: nowhere\n---\nkey: servers/lost/lost-1\naddress: " + address +
			"\nboot: b\nstate: active\nprotocol: {min: 1, max: 9}\n---\nkey: models/own\npool: own\nrouting: {steps: [{colos: [lost]}]}\n"
	}
	cuts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler) // the connection is closed without an answer
	}))
	t.Cleanup(cuts.Close)
	return map[string]reasonCase{
		reasons.Busy:             full("", "x-colonnade-queue: never"),
		reasons.QueueFull:        full("key: pools/demo\nqueue: {limit: 0}"),
		reasons.AccountQueueFull: full("key: pools/demo\nqueue: {per_account: 0}"),
		reasons.QueueTimeout:     full("key: pools/demo\nqueue: {max_wait: 100ms}"),
		reasons.Deadline:         full("", "x-colonnade-deadline-ms: 200"),
		reasons.NoEndpoint:       unavailable("key: models/own\npool: nowhere\n", ownChat),
		reasons.NoRoute:          unavailable("key: models/own\npool: demo\nrouting: {steps: [{regions: [nowhere]}]}\n", ownChat),
		reasons.NoServer:         unavailable(lost("127.0.0.1:1"), ownChat),
		reasons.RateLimited: {
			config: fleettest.OneColo(fleettest.QuickEngine(1)), documents: none, lines: []string{ofNone},
			status: 429, kind: analytics.KindRequest, metric: refused,
		},
		reasons.AccountLimit: {
			config: fleettest.OneColo(fleettest.QuickEngine(2)), documents: one, lines: []string{ofOne, "x-colonnade-queue: never"},
			cause: func(f *fleettest.Fleet) {
				f.InjectFault(simengine.FaultStallHead, 1)
				f.BeginChat(fleettest.ChatBody(1, false), ofOne)
				testkit.WaitFor(t, "the account to be at its limit", func() bool { return fleettest.InFlight(f.Engine("ams")) == 1 })
			},
			status: 429, kind: analytics.KindRequest, metric: refused,
		},
		reasons.Draining: {
			config: onebox.Config{Colos: []string{"ams"}, Engine: fleettest.SteadyEngine(1), Drain: testkit.Timeout},
			cause: func(f *fleettest.Fleet) {
				f.BeginChat(fleettest.ChatBody(400, true)).ReadUntil("data:", 1)
				waiter := f.Enqueue(1)
				f.EndNode("ams-1")
				waiter.Read()
			},
			status: 503, kind: analytics.KindRequest,
		},
		reasons.TooManyConnections: {
			config: onebox.Config{Colos: []string{"ams"}, MaxConnsPerIP: 3},
			cause: func(f *fleettest.Fleet) {
				for range 3 {
					wiretest.Dial(f.T, f.Entry.Address)
				}
			},
			status: 429, metric: refused,
		},
		reasons.FirstByteTimeout:      fault(simengine.FaultStallHead, "first_byte: 100ms", 504, analytics.KindRequest),
		reasons.TotalTimeout:          fault(simengine.FaultStallHead, "total: 200ms", 504, analytics.KindRequest),
		reasons.IdleTimeout:           fault(simengine.FaultStallStream, "idle: 200ms", 200, analytics.KindInference),
		reasons.Truncated:             fault(simengine.FaultCutAtChunk, "idle: 10s", 200, analytics.KindRequest),
		reasons.NoAnswer:              fault(simengine.FaultRefuse, "idle: 10s", 502, analytics.KindRequest),
		reasons.ErrorEvent:            fault(simengine.FaultErrorThenDone, "idle: 10s", 200, analytics.KindInference),
		reasons.EngineFull:            stub(ownChat, 429, analytics.KindInference, status(http.StatusServiceUnavailable), "x-colonnade-queue: never"),
		reasons.EngineStatus:          stub(ownChat, 502, analytics.KindRequest, status(http.StatusInternalServerError)),
		reasons.EndpointMisconfigured: stub(ownChat, 502, analytics.KindRequest, status(http.StatusNotFound)),
		reasons.ModelNotLoaded:        stub(ownChat, 503, analytics.KindRequest, notFound(`{"error":{"message":"The model does not exist.","param":"model"}}`)),
		reasons.PathNotServed:         stub(ownChat, 404, analytics.KindRequest, notFound(`{"detail":"Not Found"}`)),
		reasons.CloseDelimited: stub(ownChat, 200, analytics.KindRequest, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/srt")
			w.Header().Set("Transfer-Encoding", "identity") // neither a length nor chunks
			_, _ = io.WriteString(w, "1\n")
		}),
		reasons.NotAStream: stub(ownStream, 200, analytics.KindRequest, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{}")
		}, strings.Join(fleettest.QueueEventsHeader, ": ")),
		reasons.ConnectFailed: {
			config: fleettest.OneColo(fleettest.QuickEngine(1)), documents: refusingEngine(t), body: ownChat,
			status: 502, kind: analytics.KindRequest,
		},
		reasons.ColoUnreachable: {
			config: fleettest.OneColo(fleettest.QuickEngine(1)), documents: lost(strings.TrimPrefix(cuts.URL, "http://")), body: ownChat,
			status: 502, kind: analytics.KindRequest,
		},
		reasons.ClientGone: {
			config: fleettest.OneColo(fleettest.QuickEngine(1)),
			cause:  func(f *fleettest.Fleet) { f.InjectFault(simengine.FaultStallHead, 0) },
			kind:   analytics.KindInference,
		},
	}
}

// refusingEngine returns the documents of an engine that answers its first health check, and refuses connections from then on.
func refusingEngine(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer ln.Close()
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(testkit.Timeout))
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
	}()
	t.Cleanup(func() { ln.Close() })
	return "key: pools/own\n---\nkey: models/own\npool: own\n---\nkey: endpoints/ams/own\nurl: http://" + ln.Addr().String() +
		"\npool: own\nhealth: {interval: 1m}\n"
}
