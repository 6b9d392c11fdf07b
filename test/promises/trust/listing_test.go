package trust_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// Clients of each API find the models of their account in its shape, with aliases that are marked and with times that do not change, and no others.
func TestListedModels(t *testing.T) {
	t.Parallel()
	key, documents := fleettest.NewAccountKey(t, "acme", "models: [alpha, beta]")
	began := time.Now().Truncate(time.Second)
	f := fleettest.StartClosed(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, documents+
		"key: models/alpha\npool: demo\naliases: [first, beta, shared]\n---\nkey: models/beta\npool: demo\ntype: embedding\naliases: [shared, org/second]\n---\n"+
		"key: models/secret\npool: demo\naliases: [hidden]\n")
	f.Key = key
	ask := func(first, body string, lines ...string) wiretest.Response {
		t.Helper()
		c := wiretest.Dial(t, f.Entry.Address)
		defer c.Close()
		c.Send(first+" HTTP/1.1", append(lines, "Host: x", "X-Api-Key: "+key, "Content-Type: application/json", fmt.Sprint("Content-Length: ", len(body))), body)
		return c.Read()
	}
	operator := f.Operator()
	ask("GET /v1/models", "") // what it opens is kept
	f.WatchShared(4)
	read := func(to any, first, body string, lines ...string) {
		t.Helper()
		if a := ask(first, body, lines...); a.Status != 200 || a.Header.Get("Content-Type") != "application/json" || json.Unmarshal([]byte(a.Body), to) != nil {
			t.Fatalf("%s: %d %v %s", first, a.Status, a.Header, a.Body)
		}
	}
	type model struct {
		ID, Object string
		Type       string
		Created    int64
		OwnedBy    string    `json:"owned_by"`
		AliasOf    string    `json:"alias_of"`
		CreatedAt  time.Time `json:"created_at"`
	}
	var list struct{ Data []model }
	read(&list, "GET /v1/models", "")
	listed := ""
	for _, m := range list.Data {
		listed += m.ID + "=" + m.AliasOf + " "
		if at := time.Unix(m.Created, 0); m.Object != "model" || m.OwnedBy == "" || at.Before(began) || at.After(time.Now()) {
			t.Errorf("listed: %+v", m)
		}
	}
	const want = "alpha= first=alpha shared=alpha beta= org/second=beta "
	if listed != want {
		t.Errorf("listed are %s, want %s", listed, want)
	}
	operator.Put("key: models/later\npool: demo\n") // which changes no times of others
	for _, m := range list.Data {
		var one model
		if read(&one, "GET /v1/models/"+m.ID, ""); one != m {
			t.Errorf("%+v, and in the list %+v", one, m)
		}
	}
	const anthropic = "Anthropic-Version: 2023-06-01"
	var page struct {
		Data    []model
		HasMore bool   `json:"has_more"`
		First   string `json:"first_id"`
		Last    string `json:"last_id"`
	}
	read(&page, "GET /v1/models?limit=1000", "", anthropic)
	if len(page.Data) != 5 || page.HasMore || page.First != "alpha" || page.Last != "org/second" || page.Data[0].Type != "model" || page.Data[0].CreatedAt.Unix() != list.Data[0].Created {
		t.Errorf("Anthropic's list: %+v", page)
	}
	var one model
	if read(&one, "GET /v1/models/org%2Fsecond", "", anthropic); one != page.Data[4] {
		t.Errorf("Anthropic's model: %+v, in the list %+v", one, page.Data[4])
	}
	var tags struct {
		Models []struct{ Name, Model, Digest string }
	}
	if read(&tags, "GET /api/tags", ""); len(tags.Models) != 5 || tags.Models[1].Model != "first" || tags.Models[0].Digest != tags.Models[1].Digest {
		t.Errorf("Ollama's list: %+v", tags)
	}
	var version struct{ Version string }
	if read(&version, "GET /api/version", ""); !strings.HasPrefix(version.Version, "0.") {
		t.Errorf("Ollama's version: %+v", version)
	}
	var shown struct {
		Capabilities []string
		Details      struct {
			Parent string `json:"parent_model"`
		}
	}
	if read(&shown, "POST /api/show", `{"model":"org/second"}`); fmt.Sprint(shown.Capabilities) != "[embedding]" || shown.Details.Parent != "beta" {
		t.Errorf("shown: %+v", shown)
	}
	for _, hidden := range []string{"secret", "hidden", "absent"} {
		if a := ask("GET /v1/models/"+hidden, "", anthropic); a.Status != 404 || !strings.Contains(a.Body, `"type":"not_found_error"`) {
			t.Errorf("%s: %d %s", hidden, a.Status, a.Body)
		}
		if a := ask("POST /api/show", `{"name":"`+hidden+`"}`); a.Status != 404 || !strings.HasPrefix(a.Body, `{"error":"`) {
			t.Errorf("%s: %d %s", hidden, a.Status, a.Body)
		}
	}
	if a := ask("POST /api/show", `{"model"`); a.Status != http.StatusBadRequest || !strings.HasPrefix(a.Body, `{"error":"`) {
		t.Errorf("a broken body: %d %s", a.Status, a.Body)
	}
	key = "wrong"
	for _, first := range []string{"GET /v1/models", "GET /v1/models/alpha", "GET /api/tags", "GET /api/ps", "GET /api/version", "POST /api/show"} {
		if a := ask(first, ""); a.Status != http.StatusUnauthorized {
			t.Errorf("%s without a key: %d %s", first, a.Status, a.Body)
		}
	}
}

// A model has the length of context and the owner that its engines say, whatever kind they are, and an engine that says nothing delays no client for long.
func TestListedModelsHaveWhatEnginesSay(t *testing.T) {
	t.Parallel()
	documents := ""
	for _, kind := range []string{"vllm", "sglang", "tgi", "llamacpp"} {
		_, of := fleettest.StartKind(t, "of-"+kind, simengine.Config{Kind: kind, Slots: 2, MaxModelLen: 4321}, "aliases: [alias-of-"+kind+"]")
		documents += of
	}
	gate := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			<-gate
		}
	}))
	defer silent.Close()
	defer close(gate)
	documents += "---\nkey: models/stuck\nmax_model_len: 99\n---\nkey: endpoints/ams/stuck\nurl: " + silent.URL + "\npool: stuck\nengine: vllm\n"
	for name, c := range map[string]onebox.Config{"fleet": {}, "direct": {Direct: true}, "serve": {Serve: true}} {
		c.Engine, c.Colos = fleettest.QuickEngine(4), []string{"ams"}
		t.Run(name, func(t *testing.T) { checkEnginesWords(t, c, strings.TrimPrefix(documents, "---\n")) })
	}
}

func checkEnginesWords(t *testing.T, c onebox.Config, documents string) {
	f := fleettest.Start(t, c, documents)
	f.WatchShared(4)
	said := map[string]string{}
	testkit.WaitFor(t, "the engines' words", func() bool { // none is up at first
		_, text := get(f, "/models", "")
		var list struct {
			Data []struct {
				ID          string
				OwnedBy     string `json:"owned_by"`
				MaxModelLen int    `json:"max_model_len"`
			}
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for _, m := range list.Data {
			said[m.ID] = fmt.Sprint(m.OwnedBy, " ", m.MaxModelLen)
		}
		return said["of-vllm"] == "vllm 4321"
	})
	answer, err := f.Client.Get(strings.TrimSuffix(f.URL(), "/v1") + "/api/ps")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var running struct {
		Models []struct {
			Name    string
			Expires time.Time `json:"expires_at"`
			Context int       `json:"context_length"`
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&running); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range running.Models {
		names[m.Name] = true
		if strings.HasPrefix(m.Name, "of-") && m.Context != 4321 || !m.Expires.After(time.Now()) {
			t.Errorf("running: %+v", m)
		}
	}
	if !names["of-vllm"] || names["stuck"] || names["alias-of-vllm"] {
		t.Errorf("running: %v", names)
	}
	for model, want := range map[string]string{
		"of-sglang": "sglang 4321", "of-tgi": "colonnade 4321", "of-llamacpp": "colonnade 4321", "alias-of-vllm": "vllm 4321", "stuck": "colonnade 99",
	} {
		if said[model] != want {
			t.Errorf("%s is %q, want %q", model, said[model], want)
		}
	}
}
