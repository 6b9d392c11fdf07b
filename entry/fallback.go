package entry

import (
	"math/rand/v2"
	"slices"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/openai"
	"colonnade/reasons"
)

// fallbackNever is the value of the header x-colonnade-fallback.
const fallbackNever = "never"

// fallbacks is the way of a request over several models: the one that it asks for, and those that may serve it instead.
//
// Models are like further colos. Each is asked in turn, and the request waits in a queue only if the expected wait is short. If all are full,
// it waits for the model with the shortest expected wait. Deadlines and budgets of retries are those of the request.
type fallbacks struct {
	table   *fleet.Table   // by which the models were chosen
	left    []*fleet.Model // that were not asked yet
	asked   []askedModel   // the first is the one that the client asked for
	current int            // index in asked of the model that the call has
}

// askedModel is a model that a request has asked for capacity, and how far it came.
type askedModel struct {
	*fleet.Model
	attempts *attempts
}

// readFallback reads the header x-colonnade-fallback.
func (c *call) readFallback() (never bool, err *openai.Error) {
	switch value := c.header(fallbackHeader); value {
	case "":
		return false, nil
	case fallbackNever:
		return true, nil
	default:
		return false, openai.InvalidRequest("", "the header %s is %.40q: it must be %s, or left out", hop.HeaderFallback, value, fallbackNever)
	}
}

// planFallbacks lists the models that may serve the request instead of its own.
func (c *call) planFallbacks(t *fleet.Table, forced string) *openai.Error {
	never, err := c.readFallback()
	if err != nil || never || forced != "" || c.route.API == openai.Realtime || len(c.model.Fallback) == 0 {
		return err
	}
	var left []*fleet.Model
	for _, f := range c.model.Fallback {
		if m, ok := t.Model(f.Model); ok && m != c.model && c.mayFallBackTo(m, f.External) && !slices.Contains(left, m) {
			left = append(left, m)
		}
	}
	if len(left) > 0 {
		c.fallbacks = &fallbacks{table: t, left: left}
	}
	return nil
}

// mayFallBackTo reports whether a model may serve the request instead of its own. outside means that the document lists it as external.
func (c *call) mayFallBackTo(m *fleet.Model, outside bool) bool {
	return c.caller.MayUse(m.Name) && (!outside || c.caller.Account.AllowExternal) && c.checkShape(m) == nil
}

// beginFallbacks notes the attempts at the model that the client has asked for.
func (c *call) beginFallbacks() {
	if f := c.fallbacks; f != nil {
		f.asked = []askedModel{{c.model, c.attempts}}
		c.attempts.mayGoOn, c.attempts.noLongWait = true, true
	}
}

// nextModel turns to the next model after one has not served the request, and reports whether there is one.
func (c *call) nextModel() bool {
	f := c.fallbacks
	if f == nil || c.Context.Err() != nil || min(c.firstByteLeft(), time.Until(c.deadline)) <= reservedForReturn || !f.mayGoOn() {
		return false
	}
	for len(f.left) > 0 {
		m := f.left[0]
		f.left = f.left[1:]
		if c.checkContent(m) == nil {
			c.startFallback(m)
			return true
		}
	}
	return c.waitForModel()
}

// mayGoOn reports whether the request may go on to another model after the last one. For the model that the client has asked for, the
// request must have failed for the lack of capacity, or of an engine. A request that the engines of a fallback refuse goes on as well.
func (f *fallbacks) mayGoOn() bool {
	last := f.asked[f.current]
	e := last.attempts.clientError()
	switch e.Number {
	case openai.NumberOutOfCapacity:
		return !last.attempts.over && e.Reason != reasons.Deadline
	case openai.NumberUnavailable, openai.NumberEngineFailed:
		return !last.attempts.over
	}
	return f.current > 0 && e.Status < 500
}

// startFallback begins the attempts at another model.
func (c *call) startFallback(m *fleet.Model) {
	f, before := c.fallbacks, c.attempts
	c.useModel(m)
	c.startAttempts(f.table, "", before.queueMode, rand.Uint64())
	c.attempts.follow(before)
	f.current = len(f.asked)
	f.asked = append(f.asked, askedModel{m, c.attempts})
	others := slices.ContainsFunc(f.asked[:f.current], askedModel.mayWait)
	c.attempts.mayGoOn = others || len(f.left) > 0
	c.attempts.noLongWait = c.attempts.mayGoOn
	c.hadPlace = false
}

// follow takes over the budgets of the attempts at another model.
func (t *attempts) follow(before *attempts) {
	t.errorsLeft, t.lostServerOnce = before.errorsLeft, before.lostServerOnce
	t.endpointsFailed, t.failedBefore = before.endpointsFailed, before.endpointsFailed
}

// waitForModel turns to the model with the shortest expected wait, of those whose queues have room. It reports false if there is none.
func (c *call) waitForModel() bool {
	f, best := c.fallbacks, -1
	for i, a := range f.asked {
		if a.mayWait() && (best < 0 || shorter(a.expectedWait(), f.asked[best].expectedWait())) {
			best = i
		}
	}
	if best < 0 || c.attempts.queueMode == queueNever {
		return false
	}
	before, at := c.attempts, f.asked[best]
	if at.attempts != before {
		at.attempts.follow(before)
	}
	c.useModel(at.Model)
	c.attempts, f.current, c.hadPlace = at.attempts, best, false
	at.attempts.noLongWait = false
	at.attempts.mayGoOn = slices.ContainsFunc(f.asked, func(a askedModel) bool { return a.attempts != at.attempts && a.mayWait() })
	return true
}

// mayWait reports whether the request can wait for the model: a colo has room in its queue, and nothing has ended the attempts.
func (a askedModel) mayWait() bool { return len(a.attempts.waitingRooms) > 0 && !a.attempts.over }

// expectedWait is the shortest expected wait for the model; 0 = not known.
func (a askedModel) expectedWait() time.Duration { return a.attempts.waitingRooms[0].expected }

// useModel makes m the model of the request.
func (c *call) useModel(m *fleet.Model) {
	c.entry.active.add(m.Name, 1)
	if c.model != nil {
		c.entry.active.add(c.model.Name, -1)
	}
	c.model, c.answerName = m, ""
	asked := m
	if f := c.fallbacks; f != nil && len(f.asked) > 0 {
		asked = f.asked[0].Model
	}
	if m.AnswerModel == fleet.AnswerRequested || asked.AnswerModel == fleet.AnswerRequested {
		c.answerName = c.askedModel
	}
}

// clientError returns the error for the client when no colo has served the request. Of several models, it is the error of the one that the client has asked
// for, with the smallest Retry-After of all that are full. The error of an engine of another model comes first if that engine may have generated.
func (c *call) clientError() *openai.Error {
	f, last := c.fallbacks, c.attempts.clientError()
	if f == nil || f.current > 0 && c.attempts.over && last.Status >= 500 {
		return last
	}
	c.useModel(f.asked[0].Model)
	f.current, c.attempts = 0, f.asked[0].attempts
	e := *c.attempts.clientError()
	least := time.Duration(-1)
	for _, a := range f.asked {
		other := a.attempts.clientError()
		if other.Number == openai.NumberOutOfCapacity && other.Reason != reasons.Deadline && (least < 0 || other.RetryAfter < least) {
			least = other.RetryAfter
		}
	}
	if least >= 0 && (e.Number == openai.NumberOutOfCapacity || e.Number == openai.NumberUnavailable) {
		e.RetryAfter = least
	}
	return &e
}

// requestedModel returns the model that the client has asked for, if another one serves the request, else "".
func (c *call) requestedModel() string {
	if f := c.fallbacks; f != nil && f.current > 0 {
		return f.asked[0].Name
	}
	return ""
}
