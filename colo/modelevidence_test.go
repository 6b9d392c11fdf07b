package colo

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/forwarding/hop"
	"colonnade/internal/testkit"
)

// sayingEngine answers chats with an error, and has a list of models.
type sayingEngine struct {
	status int
	body   string
	models string // the list; empty: there is none
	served atomic.Int64
	lists  atomic.Int64
	url    string
}

func startSaying(t *testing.T, status int, body, models string) *sayingEngine {
	e := &sayingEngine{status: status, body: body, models: models}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/health":
		case r.URL.Path == "/v1/models" && e.models == "":
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Path == "/v1/models":
			e.lists.Add(1)
			fmt.Fprintf(w, `{"object":"list","data":[{"id":%q}]}`, e.models)
		default:
			e.served.Add(1)
			w.WriteHeader(e.status)
			_, _ = w.Write([]byte(e.body))
		}
	}))
	t.Cleanup(s.Close)
	e.url = s.URL
	return e
}

const wholeChat = `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`

// startSayingPair runs a server with an engine that says something in place of an answer, and one that answers.
func startSayingPair(t *testing.T, status int, body, models string) (*testServer, *sayingEngine) {
	t.Helper()
	s := startServer(t)
	says, answers := startSaying(t, status, body, models), startSaying(t, 200, wholeChat, "m-v1")
	documents := "key: pools/e\n---\nkey: models/m\npool: e\nupstream_name: m-v1\nretry: {errors: 3}\n"
	for id, url := range map[string]string{"says": says.url, "answers": answers.url} {
		documents += fmt.Sprintf("---\nkey: endpoints/ams/%s\nurl: %s\npool: e\nengine: openai\nconcurrency: 2\nhealth: {path: /health, interval: 1h}\n", id, url)
	}
	s.apply(documents)
	return s, says
}

// ask asks for the model. The request is served, or refused because the retry budget is used up.
func (s *testServer) ask() {
	s.t.Helper()
	token := hopFor("m")
	token.RetriesLeft = 3
	answer, err := s.send(s.t.Context(), token, `{"model":"x","max_tokens":1,"messages":[]}`)
	if err != nil {
		s.t.Fatal(err)
	}
	answer.Body.Close()
	if verdict := answer.Header.Get(hop.HeaderVerdict); answer.StatusCode != 200 && !strings.Contains(verdict, "engine=404") {
		s.t.Errorf("%d %s", answer.StatusCode, verdict)
	}
}

// The words of a client in an engine's 404 take neither the model nor the engine out, however often they come, and whether the engine lists
// its models or not; and such requests do not make the server ask for the list each time.
func TestHostileEchoesTakeNothingOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ message, models string }{
		{"Response with id 'resp_model' not found.", "m-v1"},
		{"Response with id 'resp_model' not found.", ""},
		{"Response with id 'resp_The model `m-v1` does not exist.' not found.", "m-v1"},
		{"Response with id 'resp_The model `m-v1` does not exist.' not found.", ""},
		{"The model `m-v1` does not exist.", "m-v1"}, // of an engine that repeats a text of the client alone
		{"Response with id 'resp_1' not found.", "m-v1"},
	} {
		t.Run(c.message+" listed: "+c.models, func(t *testing.T) {
			t.Parallel()
			s, says := startSayingPair(t, 404, fmt.Sprintf(`{"error":{"message":%q,"type":"x","param":"response_id","code":404}}`, c.message), c.models)
			for asked := 0; says.served.Load() < 12 && asked < 100; asked++ {
				s.ask()
			}
			p := s.pool("e")
			if len(p.Lacks) > 0 || says.served.Load() < 12 {
				t.Errorf("asked %d times; withheld: %+v", says.served.Load(), p.Lacks)
			}
			for _, e := range p.Endpoints {
				if e.State != "up" {
					t.Errorf("engine %s is %s: %s", e.ID, e.State, e.Reason)
				}
			}
			if n := says.lists.Load(); n > 6 {
				t.Errorf("the list was read %d times for %d requests", n, says.served.Load())
			}
		})
	}
}

// A model that the engine's list lacks is kept from it once the engine has said so, in whatever words.
func TestListConfirmsThatAModelIsMissing(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"The model `m-v1` does not exist.", "m-v1: not found, sorry"} {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			s, says := startSayingPair(t, 404, fmt.Sprintf(`{"error":{"message":%q}}`, message), "another")
			testkit.WaitFor(t, "the engine to be asked", func() bool { s.ask(); return says.served.Load() > 0 })
			if lacks := s.pool("e").Lacks; len(lacks) != 1 || lacks[0].Model != "m" || lacks[0].URL != says.url {
				t.Errorf("withheld: %+v", lacks)
			}
		})
	}
}
