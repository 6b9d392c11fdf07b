package paths_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"colonnade/analytics"
	"colonnade/internal/simengine"
	"colonnade/internal/wiretest"
)

// completion returns how many tokens the case's answer has, streamed if it has no other.
func (c pathCase) completion() int {
	if c.has == "" {
		return c.streams.completion
	}
	return c.bill.completion
}

// Clients of engines with one model do not name it in the body. The query or a header does; without either the request is refused, since
// several models might be meant, and no engine hears of it.
func TestBodiesWithoutModel(t *testing.T) {
	t.Parallel()
	s := start(t, simengine.Config{ITL: -1})
	for _, c := range cases() {
		if !slices.Contains([]string{"/infill", "/completion", "/embed", "/predict", "/generate", "/generate_stream"}, c.path) {
			continue
		}
		stream := c.has == ""
		body := "{" + strings.TrimPrefix(c.request(stream), `{"model":"`+c.engine.String()+`",`)
		f := func(name, query, line string, status int) {
			t.Run(c.String()+" "+name, func(t *testing.T) {
				id, e := idOf(c, stream)+"-"+name, s.engines[c.engine]
				before := e.Stats()
				conn := wiretest.Dial(t, s.Entry.Address)
				lines := []string{"x-request-id: " + id}
				if line != "" {
					lines = append(lines, line)
				}
				conn.Post(c.path+query, body, lines...)
				a := conn.Read()
				after := e.Stats()
				if status != 200 {
					if a.Status != status || !c.refusal.is(a.Body) || !strings.Contains(a.Body, "x-colonnade-model") || after.Requests != before.Requests {
						t.Errorf("%d %v: %s; want %d, and how to name a model", a.Status, a.Err, a.Body, status)
					}
					return
				}
				if a.Status != 200 || a.Err != nil || !strings.Contains(a.Body, cmp.Or(c.has, c.end)) {
					t.Errorf("%d %v: %s", a.Status, a.Err, a.Body)
				}
				if final := s.In(t).FinalEvent(analytics.KindInference, id); final.Model != c.engine.String() || final.CompletionTokens != c.completion() {
					t.Errorf("the event is of the model %s with %d tokens", final.Model, final.CompletionTokens)
				}
				s.rested(t, c)
			})
		}
		f("query", "?model="+c.engine.String(), "", 200)
		f("header", "", "x-colonnade-model: "+c.engine.String(), 200)
		f("nothing", "", "", 400)
	}
}
