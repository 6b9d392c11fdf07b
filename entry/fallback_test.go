package entry

import (
	"testing"

	"colonnade/fleet"
	"colonnade/openai"
	"colonnade/reasons"
)

// A request does not wait for a model whose attempts have ended, though a colo has room for it: it would ask for it again and again.
func TestNoWaitForModelThatHasRefused(t *testing.T) {
	full := testAttempts(nil, queueDefault, fleet.Retry{})
	full.noteRefusal(&fleet.Colo{Name: "a"}, openai.OutOfCapacity(reasons.Deadline, 0), false)
	refused := testAttempts(nil, queueDefault, fleet.Retry{})
	refused.waitingRooms = []waitingRoom{{}}
	refused.fail(openai.EngineFieldNotAllowed("priority", "second"))
	second := &fleet.Model{Name: "second"}
	c := &call{entry: &Entry{active: newActivity()}, attempts: refused, model: second}
	c.fallbacks = &fallbacks{asked: []askedModel{{&fleet.Model{Name: "first"}, full}, {second, refused}}, current: 1}
	if c.waitForModel() {
		t.Error("the request waits for a model that has refused it")
	}
	third := testAttempts(nil, queueDefault, fleet.Retry{})
	third.waitingRooms = []waitingRoom{{}}
	c.fallbacks.asked = append(c.fallbacks.asked, askedModel{&fleet.Model{Name: "third"}, third})
	if !c.waitForModel() || c.model.Name != "third" || c.attempts.mayGoOn {
		t.Errorf("the request waits for %s, want third and then no other", c.model.Name)
	}
}
