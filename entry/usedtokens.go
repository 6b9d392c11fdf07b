package entry

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"colonnade/analytics"
	"colonnade/fleet"
	"colonnade/forwarding/realtime"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/ratelimit"
)

const (
	bytesOfToken = 4   // a first estimate of the bytes of a request for each token of its prompt
	firstOutput  = 256 // tokens of an answer, before the account has had any
	learnedPart  = 8   // an answer changes the estimate for the next by one part in so many
	maxLearned   = 10_000
)

// usedTokens is what an answer has used.
type usedTokens struct {
	openai.Usage
	answered   bool    // an engine has answered the request with success
	reported   bool    // with usage
	unreported float64 // tokens that were generated and are in no usage report, estimated
}

// noteUsage notes the usage of the answer that is relayed.
func (c *call) noteUsage(answer *transport.Response) {
	if c.limits == nil || answer.Status() >= 300 {
		return
	}
	u := &c.limits.used
	u.answered = true
	u.Usage, u.reported = answer.Usage()
	switch stream := answer.Stream(); {
	case stream != nil && !(u.reported && stream.Ended()):
		u.unreported = float64(stream.UnreportedDeltas())
	case stream == nil && !u.reported:
		body, _ := answer.Body() // of a long one, the part that has not been relayed
		u.unreported = min(c.limits.outputs, float64(answer.Size()+int64(len(body)))/bytesOfToken)
	}
}

// noteSessionUsage notes the usage of a realtime session whose engine's end is in this process; see [call.askSessionUsage] for others.
func (c *call) noteSessionUsage(end *realtime.SessionOutcome) {
	if c.limits != nil {
		c.limits.used = usedTokens{Usage: end.Usage, answered: true, reported: end.HasUsage, unreported: float64(end.UnreportedDeltas)}
	}
}

// settleLimits takes what the request has used beyond its estimate from its limits, or returns what it has not used.
func (c *call) settleLimits(outcome analytics.Outcome) {
	l := c.limits
	if l == nil || !l.taken {
		return
	}
	l.taken = false
	used := l.tokens(outcome, len(c.path) > 0)
	if l.used.reported {
		c.entry.outputs.learn(c.caller.Account.Name, (float64(l.used.Completion)+l.used.unreported)/c.body.Outputs())
	}
	if l.used.answered && !l.used.reported && l.boundsUsage() && l.prompt+l.used.unreported > 0 {
		c.entry.metrics.UsageEstimated(c.model.Name)
	}
	settled := make([]ratelimit.Demand, 0, len(l.demands))
	for i, b := range l.bounds {
		d := l.demands[i]
		switch b.kind {
		case boundRequests:
			continue
		case boundTokens:
			d.Amount = used - l.levels[i].Taken
		default:
			d.Amount = l.cost(c.model, b.unit)
		}
		if d.Amount != 0 {
			settled = append(settled, d)
		}
	}
	if len(settled) > 0 {
		c.entry.limiter.Settle(settled, time.Now())
	}
}

// boundsUsage reports whether any limit bounds what answers use.
func (l *callLimits) boundsUsage() bool {
	return slices.ContainsFunc(l.bounds, func(b bound) bool { return b.kind != boundRequests })
}

// tokens returns the tokens that the request has used. Of an answer without usage, and of a request whose client has left before the answer,
// the estimate for the prompt stands. A request that no engine has answered has used none.
func (l *callLimits) tokens(outcome analytics.Outcome, sent bool) float64 {
	switch {
	case l.used.reported:
		return float64(l.used.Prompt+l.used.Completion) + l.used.unreported
	case l.used.answered:
		return l.prompt + l.used.unreported
	case outcome == analytics.OutcomeClientGone && sent:
		return l.prompt
	}
	return 0
}

// cost returns what the answer costs, as events of colos have it, and without usage with the estimate for the prompt, which events do not
// have; 0 in another unit than the budget's.
func (l *callLimits) cost(m *fleet.Model, unit string) float64 {
	price := m.Cost
	if price.Per == 0 || unit != "" && unit != price.Unit {
		return 0
	}
	prompt := float64(l.used.Prompt)
	if l.used.answered && !l.used.reported {
		prompt = l.prompt
	}
	return price.Of(prompt, float64(l.used.Cached), float64(l.used.Completion)+l.used.unreported)
}

// estimatePrompt estimates the tokens of a request's prompt. A prompt that is only counted costs nothing. Images in it and forms count at the end only.
func estimatePrompt(api openai.API, body []byte) float64 {
	switch api {
	case openai.Transcriptions, openai.Images, openai.Realtime, openai.Tokenize, openai.CountTokens:
		return 0
	}
	size := len(body)
	for rest := body; ; {
		_, data, found := bytes.Cut(rest, []byte(";base64,"))
		if !found {
			return float64(size) / bytesOfToken
		}
		end := bytes.IndexByte(data, '"')
		if end < 0 {
			end = len(data)
		}
		size -= end
		rest = data[end:]
	}
}

// outputEstimates estimates the tokens of answers from those that accounts have had. It is safe for concurrent use.
type outputEstimates struct {
	mu     sync.Mutex         // guards the field below
	tokens map[string]float64 // of an answer, by account
}

func newOutputEstimates() *outputEstimates { return &outputEstimates{tokens: map[string]float64{}} }

// estimate returns the tokens of a request's answers: as many as it allows, or else as many as the account's answers have had.
func (o *outputEstimates) estimate(c *call) float64 {
	if !c.route.API.GeneratesText() {
		return 0
	}
	if c.body.MaxTokens > 0 {
		return float64(c.body.MaxTokens) * c.body.Outputs()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	tokens, known := o.tokens[c.caller.Account.Name]
	if !known {
		tokens = firstOutput
	}
	return tokens * c.body.Outputs()
}

func (o *outputEstimates) learn(account string, tokens float64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known, ok := o.tokens[account]
	switch {
	case !ok && len(o.tokens) >= maxLearned:
		clear(o.tokens)
		fallthrough
	case !ok:
		o.tokens[account] = tokens
	default:
		o.tokens[account] = known + (tokens-known)/learnedPart
	}
}
