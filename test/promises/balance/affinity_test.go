package balance_test

import (
	"fmt"
	"strings"
	"testing"

	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
)

// world is a fleet with four engines in one colo.
type world struct {
	*fleettest.Fleet
	admin, tenant string // keys of an account of operators and of another
}

// start runs a fleet whose pool has a policy.
func start(t *testing.T, policy string) *world {
	t.Helper()
	admin, documents := account("root", "admin: true\n")
	tenant, more := account("acme", "")
	c := fleettest.OneColo(fleettest.QuickEngine(4))
	c.Engines = 4
	w := &world{Fleet: fleettest.Start(t, c, documents+"---\n"+more+"---\nkey: pools/demo\nbalance: "+policy+"\n"), admin: admin, tenant: tenant}
	w.WatchShared(8)
	return w
}

func account(name, rest string) (authorization, documents string) {
	documents, authorization = fleettest.AccountWithKey(name, rest)
	return authorization, documents
}

// chosen sends a request of the operators, and returns the endpoint and what follows it.
func (w *world) chosen(body string, headers ...string) (endpoint, why string) {
	w.T.Helper()
	a := w.Chat(body, append(headers, "Authorization", w.admin)...)
	if a.Status != 200 {
		w.T.Fatalf("%d %s", a.Status, a.Body)
	}
	endpoint, why, _ = strings.Cut(a.Header.Get(hop.HeaderEndpointReason), "; ")
	if endpoint == "" {
		w.T.Fatalf("the response names no endpoint: %v", a.Header)
	}
	return endpoint, why
}

// The requests of a session go to one engine, those of several sessions to several. A name that cannot be one counts as none.
func TestSessionKeepsItsEngine(t *testing.T) {
	t.Parallel()
	w := start(t, "{policy: consistent_hash}")
	used := map[string]bool{}
	for n := range 16 {
		session := []string{hop.HeaderSessionAffinity, fmt.Sprint("session-", n)}
		first, why := w.chosen(fleettest.ChatBody(1, false), session...)
		if why != "policy=consistent_hash; reason=ring" {
			t.Errorf("session %d: %s", n, why)
		}
		if next, _ := w.chosen(fleettest.ChatBody(1, true), session...); next != first {
			t.Errorf("session %d is at %s, then at %s", n, first, next)
		}
		used[first] = true
	}
	if len(used) < 2 {
		t.Errorf("all sessions are at one engine: %v", used)
	}
	own, _ := w.chosen(fleettest.ChatBody(1, false))
	for _, name := range []string{strings.Repeat("x", 10<<10), strings.Repeat("y", 257), "two words", "s\u00e9ance"} {
		if got, _ := w.chosen(fleettest.ChatBody(1, false), hop.HeaderSessionAffinity, name); got != own {
			t.Errorf("session %.20q is at %s, and the account at %s", name, got, own)
		}
	}
}

// No account but the operators' learns which engine served it, whatever it sends.
func TestOnlyOperatorsLearnTheEndpoint(t *testing.T) {
	t.Parallel()
	w := start(t, "{policy: round_robin}")
	turns := func() uint64 { return w.Pool("ams", "demo").Balance.Choices["round_robin"]["turn"] }
	before := turns() // the fleet's own request at its start
	for _, authorization := range []string{w.tenant, ""} {
		for _, stream := range []bool{false, true} {
			a := w.Chat(fleettest.ChatBody(1, stream), "Authorization", authorization, hop.HeaderEndpointReason, "1")
			if got := a.Header.Values(hop.HeaderEndpointReason); a.Status != 200 || got != nil {
				t.Errorf("%d, and the response says %q", a.Status, got)
			}
		}
	}
	if _, why := w.chosen(fleettest.ChatBody(1, true)); why != "policy=round_robin; reason=turn" {
		t.Errorf("chosen by %s", why)
	}
	if n := turns() - before; n != 5 {
		t.Errorf("%d of 5 choices are counted", n)
	}
}

// Each turn of a conversation goes to the engine that has the turns before in its cache.
func TestConversationKeepsItsEngine(t *testing.T) {
	t.Parallel()
	w := start(t, "{policy: prefix_affinity}")
	for n := range 4 {
		messages, first := "", ""
		for turn := range 4 {
			messages += fmt.Sprintf(`{"role":"user","content":"%s"},`, strings.Repeat(fmt.Sprint("talk ", n, " turn ", turn, ". "), 40))
			endpoint, why := w.chosen(fmt.Sprintf(`{"model":"demo-chat","max_tokens":%d,"messages":[%s]}`, 1+turn, strings.TrimSuffix(messages, ",")))
			want := "policy=prefix_affinity; reason=prefix"
			if turn == 0 {
				first, want = endpoint, "policy=prefix_affinity; reason=prefix_none"
			}
			if endpoint != first || why != want {
				t.Errorf("turn %d of conversation %d is at %s by %s, and the first at %s", turn, n, endpoint, why, first)
			}
			messages += `{"role":"assistant","content":"yes"},`
		}
	}
}
