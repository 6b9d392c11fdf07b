package onebox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/accounts"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/forwarding"
	"colonnade/internal/testkit"
	"colonnade/node"
	"colonnade/onebox"
)

// newKey makes a key and the document of an account that has it. rest is the rest of the document.
func newKey(t testing.TB, account, rest string) (key, document string) {
	t.Helper()
	key, entry := accounts.NewKey("", time.Now(), time.Time{})
	text, err := fleet.AddKey(account, []byte(rest+"\n"), entry)
	if err != nil {
		t.Fatal(err)
	}
	return key, "key: accounts/" + account + "\n" + string(text) + "---\n"
}

// edit changes an account's document as the command line does.
func (f *testFleet) edit(account string, change func([]byte) ([]byte, error)) {
	f.t.Helper()
	client, err := etcd.Dial([]string{f.Etcd})
	if err != nil {
		f.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := etcd.Edit(ctx, client, node.Prefix, "accounts/"+account, change); err != nil {
		f.t.Fatal(err)
	}
}

// A colo is told the account, and its weight, priority and cap, by the entry alone. A client may lower its priority and do
// nothing else.
func TestAccountReachesColo(t *testing.T) {
	colo, documents := startStandIn(t, "elsewhere", "elsewhere-1", func(forwarding.Wait) string { return "" })
	gold, goldDoc := newKey(t, "gold", "weight: 7\npriority: interactive\nlimits: {concurrent: 3}")
	bulk, bulkDoc := newKey(t, "bulk", "weight: 2\npriority: batch")
	f := startFleet(t, onebox.Config{Engine: quick(4)}, documents+goldDoc+bulkDoc+"key: accounts/open\nweight: 3\n---\n"+
		"key: models/elsewhere\npool: demo\nrouting: {steps: [{colos: [elsewhere]}]}")
	f.watch(8)
	ask := func(key, want string, lines ...string) {
		t.Helper()
		if key != "" {
			lines = append(lines, "Authorization: Bearer "+key)
		}
		if a := f.ask(`{"model":"elsewhere","messages":[]}`, lines...); a.Status != http.StatusOK {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		colo.mu.Lock()
		defer colo.mu.Unlock()
		h := colo.asked[len(colo.asked)-1].hop
		if got := fmt.Sprintf("%s %d %s %d", h.Account, h.Weight, h.Priority, h.Concurrent); got != want {
			t.Errorf("with %q the colo was told %q, want %q", lines, got, want)
		}
	}
	forged := []string{"x-colonnade-weight: 1000", "x-colonnade-account: gold", "x-colonnade-concurrent: 1000", "x-colonnade-hop: v1.e30.AAAA"}
	ask(gold, "gold 7 interactive 3")
	ask(gold, "gold 7 batch 3", "x-colonnade-priority: batch")
	ask(gold, "gold 7 interactive 3", forged...)
	ask(bulk, "bulk 2 batch 1024")
	ask(bulk, "bulk 2 batch 1024", append(forged, "x-colonnade-priority: interactive")...)
	ask(bulk, "bulk 2 batch 1024", "x-colonnade-priority: standard")
	for _, none := range []string{"", "none", "cn_" + gold} {
		ask(none, "open 3 standard 1024", append(forged, "x-colonnade-priority: interactive")...)
		ask(none, "open 3 batch 1024", "x-colonnade-priority: batch")
	}
}

// An account sees and uses the models of its list, under their names and aliases, and nothing else; an empty list is none.
func TestModelsOfAccounts(t *testing.T) {
	all, allDoc := newKey(t, "all", "weight: 1")
	none, noneDoc := newKey(t, "none", "models: []")
	some, someDoc := newKey(t, "some", "models: [demo-chat, default, unheard-of]") // an alias in the list means nothing
	talk, talkDoc := newKey(t, "talk", "models: [demo-realtime]")
	f := startFleet(t, onebox.Config{Engine: quick(4)}, allDoc+noneDoc+someDoc+talkDoc+"key: accounts/open\nmodels: [demo-embed]")
	f.watch(8)
	const chat, embed, session = "demo-chat", "demo-embed", "demo-realtime"
	for _, c := range []struct {
		name, key string
		may       string // space-separated
	}{
		{"all", all, chat + " " + embed + " " + session}, {"none", none, ""}, {"some", some, chat}, {"talk", talk, session}, {"open", "none", embed},
	} {
		bearer := "Bearer " + c.key
		status := func(model string) int {
			if strings.Contains(" "+c.may+" ", " "+model+" ") {
				return http.StatusOK
			}
			return http.StatusForbidden
		}
		post := func(path, body, model string) {
			t.Helper()
			a, err := f.post(context.Background(), path, body, "Authorization", bearer)
			if err != nil || a.Status != status(model) {
				t.Errorf("%s: %s: %v %d %s, want %d", c.name, body, err, a.Status, a.Body, status(model))
			} else if a.Status != http.StatusOK && a.error(t).Code != "model_not_allowed" {
				t.Errorf("%s: %s: %s", c.name, body, a.Body)
			}
		}
		post("/chat/completions", chatBody(1, false), chat)
		post("/chat/completions", `{"model":"default","messages":[],"max_tokens":1}`, chat)
		post("/embeddings", `{"model":"demo-embed","input":"x"}`, embed)
		if got := f.modelsOf(bearer); got != c.may {
			t.Errorf("%s: listed are %q, want %q", c.name, got, c.may)
		}
		for _, model := range []string{chat, embed, session} {
			want := status(model)
			if want != http.StatusOK {
				want = http.StatusNotFound // as if it were not there
			}
			if got, _ := f.get("/models/"+model, bearer); got != want {
				t.Errorf("%s: GET /models/%s: %d, want %d", c.name, model, got, want)
			}
		}
		if status(session) == http.StatusOK {
			s := f.dial(session, "Authorization", bearer)
			s.hear("session.created")
			s.hangUp(1000, "")
		} else if e := f.refuse(session, http.StatusForbidden, "Authorization", bearer).error(t); e.Code != "model_not_allowed" {
			t.Errorf("%s: a session: %+v", c.name, e)
		}
	}
}

// get returns the answer to a GET below the base URL.
func (f *testFleet) get(path, authorization string) (int, string) {
	f.t.Helper()
	r, err := http.NewRequest(http.MethodGet, f.URL()+path, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Authorization", authorization)
	answer, err := f.client.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

// modelsOf returns the models that are listed for a caller.
func (f *testFleet) modelsOf(authorization string) string {
	f.t.Helper()
	status, text := f.get("/models", authorization)
	var list struct{ Data []struct{ ID string } }
	if err := json.Unmarshal([]byte(text), &list); err != nil || status != http.StatusOK || list.Data == nil {
		f.t.Errorf("GET /models: %d %s: %v", status, text, err)
	}
	var names []string
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	return strings.Join(names, " ")
}

// A key that is made works, and one that is revoked is refused, within five seconds on a fleet that runs. What it has begun
// goes on, and other keys of the account are not touched.
func TestRevokedKey(t *testing.T) {
	t.Parallel()
	kept, document := newKey(t, "acme", "weight: 2 # ours")
	f := startClosedFleet(t, onebox.Config{Engine: quick(4)}, strings.TrimSuffix(document, "---\n"))
	f.key = kept
	f.watchBeside(8)
	key, entry := accounts.NewKey("", time.Now(), time.Time{})
	status := func() int { return f.chat(chatBody(1, false), "Authorization", "Bearer "+key).Status }
	if got := status(); got != http.StatusUnauthorized {
		t.Fatalf("before the key was made: %d", got)
	}
	f.edit("acme", func(old []byte) ([]byte, error) { return fleet.AddKey("acme", old, entry) })
	testkit.Within(t, 5*time.Second, "the new key works", func() bool { return status() == http.StatusOK })

	begun := f.begin(chatBody(2000, true), "Authorization: Bearer "+key)
	begun.readUntil("data: ", 5)
	f.edit("acme", func(old []byte) ([]byte, error) { return fleet.RemoveKey("acme", old, entry.ID) })
	testkit.Within(t, 5*time.Second, "the revoked key is refused", func() bool { return status() == http.StatusUnauthorized })
	a := f.chat(chatBody(1, false), "Authorization", "Bearer "+key)
	if e := a.error(t); e.Code != "invalid_api_key" || strings.Contains(a.Body, key[len(key)-10:]) || a.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("refused with %v %s", a.Header, a.Body)
	}
	f.refuse("demo-realtime", http.StatusUnauthorized, "Authorization", "Bearer "+key)
	if got, _ := f.get("/models", "Bearer "+key); got != http.StatusUnauthorized {
		t.Errorf("GET /models: %d", got)
	}
	if a := f.chat(chatBody(1, false)); a.Status != http.StatusOK {
		t.Errorf("the other key of the account: %d %s", a.Status, a.Body)
	}
	begun.readUntil("data: [DONE]", 1)
}

// A key ends at its time, without any change of a document. In an open fleet its holder then is the account open.
func TestKeyExpires(t *testing.T) {
	t.Parallel()
	expires := time.Now().Add(3 * time.Second)
	key, entry := accounts.NewKey("", time.Now(), expires)
	text, err := fleet.AddKey("brief", []byte("models: [demo-chat]\n"), entry)
	if err != nil {
		t.Fatal(err)
	}
	for _, open := range []bool{false, true} {
		other, document := newKey(t, "other", "weight: 1")
		f := startClosedFleet(t, onebox.Config{Engine: quick(4), Open: open}, document+"key: accounts/brief\n"+string(text))
		f.key = other
		f.watchBeside(8)
		status := func() int { return f.chat(chatBody(1, false), "Authorization", "Bearer "+key).Status }
		if got := status(); got != http.StatusOK && time.Now().Before(expires) {
			t.Errorf("open %v, before its end: %d", open, got)
		}
		time.Sleep(time.Until(expires))
		switch got := status(); {
		case open:
			if models := f.modelsOf("Bearer " + key); got != http.StatusOK || models != "demo-chat demo-embed demo-realtime" {
				t.Errorf("open, after its end: %d, and it may use %q", got, models)
			}
		case got != http.StatusUnauthorized:
			t.Errorf("after its end: %d", got)
		}
	}
}
