package trust_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
	"colonnade/internal/oracle"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// desync is what is sent over one connection, with the statuses of the responses. In wire, {auth} stands for a header line that
// is valid for firstBody, {len} and {chunked} for its framings, and {hidden} for a whole request that must not be taken for one
// where it is inside a body. It also follows behind everything.
type desync struct {
	name, wire string
	answers    string // statuses; the engine gets firstBody if the first is 200, hiddenBody if the second is
	peer       string // the statuses at a colo; empty = the same
}

const (
	firstBody  = `{"model":"own","messages":[],"user":"first"}`
	hiddenBody = `{"model":"own","messages":[],"user":"hidden"}`
)

// speaker is a client at the entry, or a trusted node at a colo.
type speaker struct {
	address string
	words   func(target string) *strings.Replacer // of the first request; others for each connection, since hop tokens are good once
	peer    bool
}

func speakers(f *fleettest.Fleet) []speaker {
	colo := f.Colos[0]
	return []speaker{
		{address: f.Entry.Address, words: func(string) *strings.Replacer {
			return desyncWords("x-request-id: 12345678", "x-request-id: 12345678")
		}},
		{address: colo.Address, peer: true, words: func(target string) *strings.Replacer {
			return desyncWords("x-colonnade-hop: "+signToken(f, colo.Node, target, firstBody, time.Now()),
				"x-colonnade-hop: "+signToken(f, colo.Node, fleettest.ChatPath, hiddenBody, time.Now()))
		}},
	}
}

func desyncWords(auth, authOfHidden string) *strings.Replacer {
	hidden := "POST " + fleettest.ChatPath + " HTTP/1.1\r\nHost: fleet\r\nContent-Type: application/json\r\n" + authOfHidden +
		"\r\nConnection: close\r\nContent-Length: " + strconv.Itoa(len(hiddenBody)) + "\r\n\r\n" + hiddenBody
	return strings.NewReplacer("{auth}", auth, "{len}", strconv.Itoa(len(firstBody)), "{body}", firstBody,
		"{chunked}", wiretest.Chunked(firstBody, 10), "{hidden}", hidden, "{hiddenlen}", strconv.Itoa(len(hidden)))
}

// signToken returns the hop token of an entry for a POST of JSON to a node.
func signToken(f *fleettest.Fleet, node, target, body string, issued time.Time) string {
	f.T.Helper()
	return signTokenFor(f, hop.Binding{Audience: node, Method: "POST", Target: target, AppendHeader: fleettest.JSONHeader, Body: []byte(body)}, issued)
}

// signTokenFor returns the hop token of an entry for any binding.
func signTokenFor(f *fleettest.Fleet, to hop.Binding, issued time.Time) string {
	f.T.Helper()
	return f.SignHop(ownToken(), to, issued)
}

// ownToken returns what an entry signs of a request for the model "own".
func ownToken() hop.Token {
	return hop.Token{
		RequestID: "0123456789abcdef0123456789abcdef", Source: "entry-1", Account: "anonymous", Weight: 1, Priority: "standard", Model: "own",
		HopsLeft: 1, Wait: hop.WaitFull, Total: hop.Millis(time.Minute),
	}
}

// A request that two servers might read in two ways is refused, or read in the only way on which all agree. At either
// listener one request never becomes two, and engines get exactly what a colo writes.
func TestDesync(t *testing.T) {
	t.Parallel()
	engine, documents := startTape(t)
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, documents)
	watchNodes(f, 16)
	for _, s := range speakers(f) {
		for _, group := range desyncTable() {
			t.Run(fmt.Sprintf("%s/peer=%v", group.name, s.peer), func(t *testing.T) {
				for _, c := range group.cases {
					s.desync(t, engine, c)
				}
			})
		}
	}
}

func (s speaker) desync(t *testing.T, engine *tape, c desync) {
	t.Helper()
	want := c.answers
	if s.peer && c.peer != "" {
		want = c.peer
	}
	answers, how := s.say(t, c.wire+"{hidden}")
	if answers != want || how != "closed" {
		t.Errorf("%q: answered %q, and the connection ended: %s; want %q and closed", c.name, answers, how, want)
	}
	finals := strings.Fields(strings.ReplaceAll(want, "100 ", ""))
	var bodies []string
	for i, status := range finals {
		if status == "200" {
			bodies = append(bodies, []string{firstBody, hiddenBody}[i])
		}
	}
	engine.check(t, c.name, bodies...)
}

// say sends text over a connection of its own, and returns the statuses of all responses until its end.
func (s speaker) say(t *testing.T, text string) (answers, how string) {
	t.Helper()
	w := wiretest.Dial(t, s.address)
	defer w.Close()
	text = s.words(firstTarget(text)).Replace(text)
	go func() { _, _ = io.WriteString(w, text) }() // or as much of it as is accepted
	method, _, _ := strings.Cut(strings.TrimLeft(text, "\r\n"), " ")
	var statuses []string
	for {
		if _, err := w.R.Peek(1); err != nil {
			return strings.Join(statuses, " "), w.End()
		}
		status, err := readStrictly(w.R, method)
		if err != nil {
			return strings.Join(statuses, " "), fmt.Sprintf("in a response: %v", err)
		}
		if statuses = append(statuses, strconv.Itoa(status)); status >= 200 {
			method = "POST" // of what follows
		}
	}
}

// firstTarget returns the target of the first request in text, for which a token must be signed: ChatPath, with a query if it has one.
func firstTarget(text string) string {
	line, _, _ := strings.Cut(text, "\r\n")
	if words := strings.Split(line, " "); len(words) == 3 && strings.HasPrefix(words[1], fleettest.ChatPath+"?") {
		return words[1]
	}
	return fleettest.ChatPath
}

// readStrictly reads one response, which must have a length unless it is interim.
func readStrictly(br *bufio.Reader, method string) (int, error) {
	r, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		return 0, err
	}
	if r.StatusCode >= 200 && r.ContentLength < 0 {
		return 0, fmt.Errorf("response %d has no length", r.StatusCode)
	}
	_, err = io.Copy(io.Discard, r.Body)
	return r.StatusCode, err
}

// watchNodes is WatchShared without the events, of which requests that begin at a colo have no complete set.
func watchNodes(f *fleettest.Fleet, idle int) {
	f.T.Helper()
	f.WatchWith(oracle.Config{IdleConnections: idle, Shared: true, NoEvents: true})
}
