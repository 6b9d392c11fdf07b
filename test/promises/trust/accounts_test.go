package trust_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/accounts"
	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/node"
	"colonnade/onebox"
)

// inEtcd works with the fleet's etcd as the command line does.
func inEtcd(f *fleettest.Fleet, work func(context.Context, *etcd.Client) error) {
	f.T.Helper()
	client, err := etcd.Dial([]string{f.Etcd})
	if err != nil {
		f.T.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	if err := work(ctx, client); err != nil {
		f.T.Fatal(err)
	}
}

// The events of an entry, and those that bill, name the API key that a request has used by its id, and never have its secret.
func TestEventsNameTheKey(t *testing.T) {
	t.Parallel()
	key, doc := accounts.NewKey("acme", "", time.Time{}, time.Time{})
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), fmt.Sprintf("key: accounts/acme\n---\nkey: keys/%s\naccount: acme\nsha256: %q\n", doc.ID, hex.EncodeToString(doc.SHA256[:])))
	for authorization, want := range map[string]string{"Bearer " + key: doc.ID, "": ""} {
		answer := f.Chat(fleettest.ChatBody(1, false), "Authorization", authorization)
		request, inference := f.LastEvents(answer.Header.Get("x-request-id"))
		if answer.Status != 200 || request.Key != want || inference.Key != want || request.Key == key {
			t.Errorf("status %d: the entry's event has the key %q, and the colo's %q; want %q", answer.Status, request.Key, inference.Key, want)
		}
	}
}

// The hop token of the entry alone names the account with its weight, priority and cap. A client can only lower its priority.
func TestAccountReachesColo(t *testing.T) {
	colo, documents := fleettest.StartStubColo(t, "elsewhere", "elsewhere-1", func(hop.Wait) string { return "" })
	gold, goldDoc := fleettest.NewAccountKey(t, "gold", "weight: 7\npriority: interactive\nlimits: {concurrent: 3}")
	bulk, bulkDoc := fleettest.NewAccountKey(t, "bulk", "weight: 2\npriority: batch")
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4)}, documents+goldDoc+bulkDoc+"key: accounts/open\nweight: 3\n---\n"+
		"key: models/elsewhere\npool: demo\nrouting: {steps: [{colos: [elsewhere]}]}")
	f.Watch(8)
	ask := func(key, want string, lines ...string) {
		t.Helper()
		if key != "" {
			lines = append(lines, "Authorization: Bearer "+key)
		}
		if a := f.RawChat(`{"model":"elsewhere","messages":[]}`, lines...); a.Status != http.StatusOK {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		requests := colo.Requests()
		h := requests[len(requests)-1].Hop
		if got := fmt.Sprintf("%s %d %s %d", h.Account, h.Weight, h.Priority, h.Concurrent); got != want {
			t.Errorf("with %q the hop token says %q, want %q", lines, got, want)
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

// An account sees and uses the models of its list, under their names and aliases, and no others; an empty list means none.
func TestModelsOfAccounts(t *testing.T) {
	all, allDoc := fleettest.NewAccountKey(t, "all", "weight: 1")
	none, noneDoc := fleettest.NewAccountKey(t, "none", "models: []")
	some, someDoc := fleettest.NewAccountKey(t, "some", "models: [demo-chat, default, unheard-of]") // an alias in the list means nothing
	talk, talkDoc := fleettest.NewAccountKey(t, "talk", "models: [demo-realtime]")
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4)}, allDoc+noneDoc+someDoc+talkDoc+"key: accounts/open\nmodels: [demo-embed]")
	f.Watch(8)
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
			return http.StatusNotFound // as if it did not exist
		}
		post := func(path, body, model string) {
			t.Helper()
			a, err := f.Post(context.Background(), path, body, "Authorization", bearer)
			want, code := status(model), "model_not_found"
			if c.may == "" {
				want, code = http.StatusForbidden, "model_not_allowed" // by the head alone, which names no model
			}
			if err != nil || a.Status != want {
				t.Errorf("%s: %s: %v %d %s, want %d", c.name, body, err, a.Status, a.Body, want)
			} else if a.Status != http.StatusOK && a.APIError(t).Code != code {
				t.Errorf("%s: %s: %s", c.name, body, a.Body)
			}
		}
		post("/chat/completions", fleettest.ChatBody(1, false), chat)
		post("/chat/completions", `{"model":"default","messages":[],"max_tokens":1}`, chat)
		post("/embeddings", `{"model":"demo-embed","input":"x"}`, embed)
		if got := modelsOf(f, bearer); got != c.may {
			t.Errorf("%s: listed are %q, want %q", c.name, got, c.may)
		}
		for _, model := range []string{chat, embed, session} {
			if got, _ := get(f, "/models/"+model, bearer); got != status(model) {
				t.Errorf("%s: GET /models/%s: %d, want %d", c.name, model, got, status(model))
			}
		}
		if status(session) == http.StatusOK {
			s := f.DialRealtime(session, "Authorization", bearer)
			s.Hear("session.created")
			s.HangUp(1000, "")
		} else if e := f.ExpectRefused(session, http.StatusNotFound, "Authorization", bearer).APIError(t); e.Code != "model_not_found" {
			t.Errorf("%s: a session: %+v", c.name, e)
		}
	}
}

// get sends a GET below the base URL.
func get(f *fleettest.Fleet, path, authorization string) (int, string) {
	f.T.Helper()
	r, err := http.NewRequest(http.MethodGet, f.URL()+path, nil)
	if err != nil {
		f.T.Fatal(err)
	}
	r.Header.Set("Authorization", authorization)
	answer, err := f.Client.Do(r)
	if err != nil {
		f.T.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

// modelsOf returns the models that are listed for an API key, without aliases.
func modelsOf(f *fleettest.Fleet, authorization string) string {
	f.T.Helper()
	status, text := get(f, "/models", authorization)
	var list struct {
		Data []struct {
			ID      string
			AliasOf string `json:"alias_of"`
		}
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil || status != http.StatusOK || list.Data == nil {
		f.T.Errorf("GET /models: %d %s: %v", status, text, err)
	}
	var names []string
	for _, m := range list.Data {
		if m.AliasOf == "" {
			names = append(names, m.ID)
		}
	}
	return strings.Join(names, " ")
}

// A new key works, and a revoked one is refused, within five seconds on a running fleet. Requests that have begun with it
// go on, and other keys of the account are not touched.
func TestRevokedKey(t *testing.T) {
	t.Parallel()
	kept, account := fleettest.NewAccountKey(t, "acme", "weight: 2 # ours")
	f := fleettest.StartClosed(t, onebox.Config{Engine: fleettest.QuickEngine(4)}, strings.TrimSuffix(account, "---\n"))
	f.Key = kept
	f.WatchShared(8)
	key, entry := accounts.NewKey("acme", "", time.Now(), time.Time{})
	status := func() int { return f.Chat(fleettest.ChatBody(1, false), "Authorization", "Bearer "+key).Status }
	if got := status(); got != http.StatusUnauthorized {
		t.Fatalf("before the key was made: %d", got)
	}
	doc, err := document.EncodeAPIKey(&entry)
	if err != nil {
		t.Fatal(err)
	}
	inEtcd(f, func(ctx context.Context, client *etcd.Client) error {
		return etcd.Writer{Client: client, Prefix: node.Prefix}.Create(ctx, doc)
	})
	testkit.Within(t, 5*time.Second, "the new key works", func() bool { return status() == http.StatusOK })

	begun := f.BeginChat(fleettest.ChatBody(2000, true), "Authorization: Bearer "+key)
	begun.ReadUntil("data: ", 5)
	inEtcd(f, func(ctx context.Context, client *etcd.Client) error {
		_, err := etcd.Writer{Client: client, Prefix: node.Prefix}.Delete(ctx, []string{doc.Key})
		return err
	})
	testkit.Within(t, 5*time.Second, "the revoked key is refused", func() bool { return status() == http.StatusUnauthorized })
	a := f.Chat(fleettest.ChatBody(1, false), "Authorization", "Bearer "+key)
	if e := a.APIError(t); e.Code != "invalid_api_key" || strings.Contains(a.Body, key[len(key)-10:]) || a.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("refused with %v %s", a.Header, a.Body)
	}
	f.ExpectRefused("demo-realtime", http.StatusUnauthorized, "Authorization", "Bearer "+key)
	if got, _ := get(f, "/models", "Bearer "+key); got != http.StatusUnauthorized {
		t.Errorf("GET /models: %d", got)
	}
	if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != http.StatusOK {
		t.Errorf("the other key of the account: %d %s", a.Status, a.Body)
	}
	begun.ReadUntil("data: [DONE]", 1)
}

// A key with the role worker is refused for requests, with a reason that does not repeat it.
func TestWorkerKeyIsForNoRequests(t *testing.T) {
	t.Parallel()
	key, entry := accounts.NewWorkerKey("gpus", time.Now(), time.Time{})
	other, document := fleettest.NewAccountKey(t, "other", "weight: 1")
	f := fleettest.StartClosed(t, onebox.Config{Engine: fleettest.QuickEngine(4)}, document+fleettest.APIKeyDocument(t, entry))
	f.Key = other
	f.WatchShared(8)
	a := f.Chat(fleettest.ChatBody(1, false), "Authorization", "Bearer "+key)
	if a.Status != http.StatusUnauthorized || strings.Contains(a.Body, key[len(key)-10:]) {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if e := a.APIError(t); e.Code != "invalid_api_key" || !strings.Contains(e.Message, "has the role worker: it registers engines") {
		t.Errorf("refused with %+v", e)
	}
}

// A key expires at its time, without any change of a document. In an open fleet its requests then belong to the account open.
func TestKeyExpires(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{false, true} {
		other, document := fleettest.NewAccountKey(t, "other", "weight: 1")
		f := fleettest.StartClosed(t, onebox.Config{Engine: fleettest.QuickEngine(4), Open: open}, document+"key: accounts/brief\nmodels: [demo-chat]")
		f.Key = other
		f.WatchShared(8)
		expires := time.Now().Add(time.Second)
		key, entry := accounts.NewKey("brief", "", time.Now(), expires)
		status := func() int { return f.Chat(fleettest.ChatBody(1, false), "Authorization", "Bearer "+key).Status }
		f.Operator().Put(fleettest.APIKeyDocument(t, entry))
		for { // until it has expired
			asked := time.Now()
			_, models := get(f, "/models", "Bearer "+key)
			isKnown := strings.Contains(models, "demo-chat") && !strings.Contains(models, "demo-embed") // the document has arrived
			if got := status(); isKnown && got != http.StatusOK && time.Now().Before(expires) {
				t.Errorf("open %v, before its end: %d", open, got)
			}
			if asked.After(expires) {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		switch got := status(); {
		case open:
			if models := modelsOf(f, "Bearer "+key); got != http.StatusOK || models != "demo-chat demo-embed demo-realtime" {
				t.Errorf("open, after its end: %d, and it may use %q", got, models)
			}
		case got != http.StatusUnauthorized:
			t.Errorf("after its end: %d", got)
		}
	}
}
