package entry

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
	"sync/atomic"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
)

// lineOfServers is a colo of stub servers. A test says, by its place in the line, what each answers.
type lineOfServers struct {
	t     *testing.T
	table *fleet.Table
	line  []*fleet.Server

	mu     sync.Mutex // guards the fields below
	answer map[string]func(hop.Token, http.ResponseWriter)
	asked  []string // "place unanswered", in order
}

// startLine starts a colo of n servers. Each of them serves a request unless the test says otherwise.
func startLine(t *testing.T, n int) *lineOfServers {
	t.Helper()
	s := &lineOfServers{t: t, answer: map[string]func(hop.Token, http.ResponseWriter){}}
	documents := "key: models/m\nretry: {errors: 0}\ntype: chat\n---\nkey: models/r\ntype: realtime\n---\nkey: colos/ams\nregion: eu\n"
	for i := range n {
		node := fmt.Sprintf("ams-%d", i+1)
		stub := httptest.NewServer(s.handler(node))
		t.Cleanup(stub.Close)
		documents += fmt.Sprintf("---\nkey: servers/ams/%s\naddress: %s\nboot: x\nprotocol: {min: 1, max: 3}\n", node, strings.TrimPrefix(stub.URL, "http://"))
	}
	s.table = tableOf(t, documents)
	s.line = rankServers(s.table, "m", "ams")
	return s
}

func (s *lineOfServers) place(node string) int {
	return slices.IndexFunc(s.line, func(other *fleet.Server) bool { return other.Node == node })
}

func (s *lineOfServers) handler(node string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == hop.PathAlive {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		var token hop.Token
		payload, _ := base64.RawURLEncoding.DecodeString(strings.Split(r.Header.Get(hop.HeaderToken), ".")[1])
		if err := json.Unmarshal(payload, &token); err != nil || token.Revision < max(s.table.ServersRevision("ams"), 1) {
			s.t.Errorf("token %+v, %v", token, err)
		}
		s.mu.Lock()
		asked := fmt.Sprint(s.place(node))
		for _, other := range token.Unanswered {
			asked += fmt.Sprint(" -", s.place(other))
		}
		if token.Rejoin {
			asked += fmt.Sprint(" rejoins after ", time.Duration(token.Waited))
		}
		if token.Revision > max(s.table.ServersRevision("ams"), 1) {
			asked += fmt.Sprint(" at ", token.Revision)
		}
		s.asked = append(s.asked, asked)
		answer := s.answer[node]
		s.mu.Unlock()
		w.Header().Set(hop.HeaderAttempts, "1")
		if answer == nil {
			_, _ = io.WriteString(w, `{}`)
			return
		}
		answer(token, w)
	}
}

// answers sets what the server at a place of the line answers; nil = it serves.
func (s *lineOfServers) answers(place int, with func(hop.Token, http.ResponseWriter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer[s.line[place].Node] = with
}

// movedTo is the verdict that names the home.
func movedTo(node string, revision int64, waited time.Duration) func(hop.Token, http.ResponseWriter) {
	return movedToAddress(&fleet.Server{Node: node}, revision, waited)
}

// movedToAddress is the verdict that names the home and its address.
func movedToAddress(home *fleet.Server, revision int64, waited time.Duration) func(hop.Token, http.ResponseWriter) {
	return func(_ hop.Token, w http.ResponseWriter) {
		w.Header().Set(hop.HeaderVerdict, hop.Verdict{
			Kind: hop.VerdictMoved, Number: 50301, Reason: "draining", To: home.Node, Address: home.Address, Boot: home.Boot,
			Revision: revision, Waited: waited > 0,
		}.String())
		w.Header().Set(hop.HeaderAttempts, "0")
		w.Header().Set(hop.HeaderQueuedMS, fmt.Sprint(waited.Milliseconds()))
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// cut closes the connection without an answer.
func cut(_ hop.Token, w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		c.Close()
	}
}

// expect expects a status, and which servers were asked.
func (s *lineOfServers) expect(url string, status int, asked ...string) {
	s.t.Helper()
	got, answer := chat(s.t, url, request)
	s.mu.Lock()
	defer s.mu.Unlock()
	if got != status || !slices.Equal(s.asked, asked) {
		s.t.Errorf("%d %s, asked %q; want %d, %q", got, answer, s.asked, status, asked)
	}
	s.asked = nil
}

// The home is asked first; if it names another server, that one, with the time that the request has waited; and if it does not answer, the
// next in line, without a retry. Where no server is left, the client hears the reason.
func TestServersOfOneColo(t *testing.T) {
	t.Parallel()
	s := startLine(t, 3)
	url, metrics := startEntryBy(t, tableFunc(s.table))
	s.expect(url, 200, "0")
	s.answers(0, movedTo(s.line[2].Node, 1, 0))
	s.expect(url, 200, "0", "2")
	s.answers(0, movedTo(s.line[2].Node, 1, 1500*time.Millisecond))
	s.expect(url, 200, "0", "2 rejoins after 1.5s")
	s.answers(0, movedTo(s.line[2].Node, 7, 0)) // it knows more than the entry
	s.expect(url, 200, "0", "2 at 7")
	s.answers(2, movedTo(s.line[1].Node, 5, 0))
	s.expect(url, 200, "0", "2 at 7", "1 at 7")
	s.answers(2, nil)
	s.answers(0, movedTo("", 0, time.Second))
	s.expect(url, 200, "0", "1 rejoins after 1s")
	s.answers(0, cut)
	s.expect(url, 200, "0", "1 -0")
	s.answers(1, movedTo(s.line[0].Node, 1, 0)) // which hears it
	s.expect(url, 502, "0", "1 -0", "0")        // its second loss is no longer free
	s.answers(0, movedTo(s.line[1].Node, 1, 0))
	s.expect(url, 503, "0", "1", "0", "1", "0", "0 -1", "1 -0") // in the end it is to wait at one of the two
	if n := retries(t, metrics); n != 0 {
		t.Errorf("%v retries are counted", n)
	}
}

// The next in line of a home that refuses connections is asked, and only that home counts as unresponsive.
func TestHomeThatRefusesConnections(t *testing.T) {
	t.Parallel()
	s := startLine(t, 3)
	s.line[0].Address = "127.0.0.1:1"
	url, e := startEntryWith(t, Config{Table: tableFunc(s.table)}, t.TempDir())
	s.expect(url, 200, "1 -0")
	s.answers(1, cut)
	s.expect(url, 200, "1 -0", "2 -0 -1")
	u := e.Unresponsive()
	if len(u) != 2 || u[0].Times+u[1].Times != 3 {
		t.Errorf("unresponsive: %+v", u)
	}
}

// A server that the entry does not know yet is awaited, until a table of the verdict's revision has come.
func TestServerThatIsNotKnownYet(t *testing.T) {
	t.Parallel()
	s := startLine(t, 3)
	var table atomic.Pointer[fleet.Table]
	older := tableOf(t, "key: models/m\nretry: {errors: 0}\n---\nkey: colos/ams\nregion: eu\n---\n"+
		fmt.Sprintf("key: servers/ams/%s\naddress: %s\nboot: x\nprotocol: {min: 1, max: 3}\n", s.line[1].Node, s.line[1].Address))
	table.Store(older)
	url, _ := startEntryWith(t, Config{Table: table.Load}, t.TempDir())
	s.answers(1, func(token hop.Token, w http.ResponseWriter) {
		movedTo(s.line[0].Node, 1, 0)(token, w)
		time.AfterFunc(20*time.Millisecond, func() { table.Store(s.table) })
	})
	s.expect(url, 200, "1", "0")
}

// only returns a table with one server of the line, and another one at an address where nothing listens.
func (s *lineOfServers) only(place, unreachable int) *fleet.Table {
	documents := "key: models/m\nretry: {errors: 0}\n---\nkey: colos/ams\nregion: eu\n"
	for at, address := range map[int]string{place: s.line[place].Address, unreachable: "127.0.0.1:1"} {
		documents += fmt.Sprintf("---\nkey: servers/ams/%s\naddress: %s\nboot: x\nprotocol: {min: 1, max: 3}\n", s.line[at].Node, address)
	}
	return tableOf(s.t, documents)
}

// A server that the table does not have, or has at another address, is reached at the address that a verdict of a newer revision gives,
// while the table stays as it is.
func TestServerAtTheAddressOfAVerdict(t *testing.T) {
	t.Parallel()
	s := startLine(t, 3)
	var table atomic.Pointer[fleet.Table]
	table.Store(s.only(1, 2))
	url, e := startEntryWith(t, Config{Table: table.Load}, t.TempDir())
	s.answers(1, movedToAddress(s.line[0], 7, time.Second))
	s.expect(url, 200, "1", "0 rejoins after 1s at 7")
	s.answers(0, cut)
	s.expect(url, 502, "1", "0 rejoins after 1s at 7", "1 -0 rejoins after 1s at 7", "0 rejoins after 2s at 7") // a second loss is not free
	if u := e.Unresponsive(); len(u) != 1 || u[0].Node != s.line[0].Node || u[0].Times != 2 {
		t.Errorf("unresponsive: %+v", u)
	}
	s.answers(0, nil)
	table.Store(s.only(1, 0)) // at an address of an earlier process
	s.expect(url, 200, "1 -0", "0 rejoins after 1s at 7")
	s.answers(1, movedToAddress(s.line[0], 0, time.Second)) // not newer than the table
	s.expect(url, 503, "1 -0", "1 -0 rejoins after 1s", "1 -0 rejoins after 2s", "1 -0 rejoins after 3s", "1 -0 rejoins after 4s")
}

// The handshake of a realtime session is moved, and goes on, like any request.
func TestHandshakeAtServersOfOneColo(t *testing.T) {
	t.Parallel()
	s := startLine(t, 3)
	s.line = rankServers(s.table, "r", "ams")
	s.answers(0, func(token hop.Token, w http.ResponseWriter) {
		if len(token.Unanswered) == 0 {
			movedTo(s.line[1].Node, 1, 0)(token, w)
		}
	})
	s.answers(1, cut)
	url, _ := startEntryWith(t, Config{Table: tableFunc(s.table)}, t.TempDir())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/realtime?model=r", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Sec-WebSocket-Version", "13")
	r.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if s.mu.Lock(); !slices.Equal(s.asked, []string{"0", "1", "0 -1"}) {
		t.Errorf("asked %q", s.asked)
	}
	s.mu.Unlock()
}

// The home comes first, then those that would take over, and servers whose leases have expired come last, in the same order.
// Those that drain are left out. Another table has another order.
func TestOrderOfServers(t *testing.T) {
	t.Parallel()
	var orders ranking
	f := func(table *fleet.Table, want ...string) {
		t.Helper()
		for range 2 {
			var got []string
			for _, s := range orders.of(table, poolIn{"m", "ams"}) {
				got = append(got, s.Node)
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	}
	s := startLine(t, 4)
	all := []string{s.line[0].Node, s.line[1].Node, s.line[2].Node, s.line[3].Node}
	f(s.table, all...)
	expired := []string{"servers/ams/" + all[0], "servers/ams/" + all[2]}
	slices.Sort(expired)
	f(s.table.WithStoreState(fleet.StoreState{ExpiredLeases: expired}), all[1], all[3], all[0], all[2])
	s.line[1].State = fleet.StateDraining
	f(s.table.WithStoreState(fleet.StoreState{}), all[0], all[2], all[3])
	f(tableOf(t, "key: models/m\n"))
}
