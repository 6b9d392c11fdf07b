package entry

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/server"
	"colonnade/openai"
	"colonnade/ratelimit"
	"colonnade/reasons"
)

// callLimits is what a request has taken of the limits of its account, of its API key and of the fleet.
type callLimits struct {
	bounds  []bound
	demands []ratelimit.Demand // of each bound
	levels  []ratelimit.Level  // of each bound, when the request was admitted or refused
	taken   bool               // the request was admitted
	prompt  float64            // tokens of the prompt, estimated
	outputs float64            // tokens of the answers, estimated
	used    usedTokens
}

// bound says what a limit bounds.
type bound struct {
	scope scope
	kind  boundKind
	unit  string // of a budget; empty = any
}

type scope uint8

const (
	ofAccount scope = iota
	ofKey
	ofFleet
)

type boundKind uint8

const (
	boundRequests boundKind = iota
	boundTokens
	boundDay
	boundMonth
)

// takeLimits takes what the request needs of all limits that hold for it, or refuses it. Most requests have none.
func (c *call) takeLimits(t *fleet.Table) *openai.Error {
	account, all := c.caller.Account.Limits.Rates(), t.Limits()
	key := c.caller.KeyLimits
	if !account.Bounds() && (key == nil || !key.Bounds()) && !all.Bounds() {
		return nil
	}
	l := &callLimits{prompt: estimatePrompt(c.route.API, c.raw), outputs: c.entry.outputs.estimate(c)}
	tokens := l.prompt + l.outputs
	l.demand(ofAccount, c.caller.Account.Name, &account, tokens, c.arrived)
	if key != nil {
		l.demand(ofKey, c.caller.KeyID, key, tokens, c.arrived)
	}
	l.demand(ofFleet, "", all, tokens, c.arrived)
	l.levels = c.entry.limiter.Take(l.demands, c.arrived)
	c.limits, l.taken = l, ratelimit.Allowed(l.levels)
	if l.taken {
		return nil
	}
	return l.refusal(c.caller.Account.Name)
}

// demand adds the demands for the limits of one scope.
func (l *callLimits) demand(s scope, name string, limits *fleet.RateLimits, tokens float64, now time.Time) {
	if limits.RequestsPerMinute > 0 {
		l.add(bound{s, boundRequests, ""}, ratelimit.Demand{Key: limitKey(s, name, "requests"), Limit: float64(limits.RequestsPerMinute), Amount: 1})
	}
	if limits.TokensPerMinute > 0 {
		l.add(bound{s, boundTokens, ""}, ratelimit.Demand{Key: limitKey(s, name, "tokens"), Limit: float64(limits.TokensPerMinute), Amount: tokens})
	}
	if budget := limits.Budget; budget.Day > 0 {
		day, ends := ratelimit.Day(now)
		l.add(bound{s, boundDay, budget.Unit}, ratelimit.Demand{Key: limitKey(s, name, "cost/"+day+"/"+budget.Unit), Limit: budget.Day, Ends: ends})
	}
	if budget := limits.Budget; budget.Month > 0 {
		month, ends := ratelimit.Month(now)
		l.add(bound{s, boundMonth, budget.Unit}, ratelimit.Demand{Key: limitKey(s, name, "cost/"+month+"/"+budget.Unit), Limit: budget.Month, Ends: ends})
	}
}

func (l *callLimits) add(b bound, d ratelimit.Demand) {
	l.bounds, l.demands = append(l.bounds, b), append(l.demands, d)
}

// limitKey names the limit that all nodes of a fleet enforce together. The name of the account or the key comes last, since it may have
// slashes.
func limitKey(s scope, name, what string) string {
	return what + "/" + [...]string{"account/", "key/", "fleet"}[s] + name
}

// refusal returns the error of a request that was not admitted: for the limit that it has to wait for longest.
func (l *callLimits) refusal(account string) *openai.Error {
	worst := 0
	for i := range l.levels {
		if l.levels[i].Wait > l.levels[worst].Wait {
			worst = i
		}
	}
	b, wait := l.bounds[worst], l.levels[worst].Wait
	owner := [...]string{fmt.Sprintf("the account %q has", account), "this API key has", "all clients together have"}[b.scope]
	limit := strconv.FormatFloat(l.demands[worst].Limit, 'f', -1, 64)
	switch b.kind {
	case boundRequests:
		return openai.LimitReached(reasons.RequestLimit, fmt.Sprintf("%s a limit of %s requests a minute, which is used up: send the next request in %s", owner, limit, resetText(wait)), wait)
	case boundTokens:
		return openai.LimitReached(reasons.TokenLimit, fmt.Sprintf("%s a limit of %s tokens a minute, which leaves too few for this request: send it in %s, or a smaller one", owner, limit, resetText(wait)), wait)
	}
	period := "day"
	if b.kind == boundMonth {
		period = "month"
	}
	why := fmt.Sprintf("%s a budget of %s for the %s, which is spent; the next %s begins at %s", owner,
		strings.TrimSpace(limit+" "+b.unit), period, period, l.demands[worst].Ends.Format("2006-01-02 15:04 MST"))
	return openai.BudgetSpent(why, wait)
}

// eachHeader calls set with the headers that say how much is left. Of an account and its key, the
// one with less left is shown; the limits of the fleet are not shown, since they say what other clients do.
func (l *callLimits) eachHeader(set func(name server.HeaderName, value string)) {
	if l == nil {
		return
	}
	l.headersOf(boundRequests, &requestLimitHeaders, set)
	l.headersOf(boundTokens, &tokenLimitHeaders, set)
}

func (l *callLimits) headersOf(kind boundKind, names *limitHeaders, set func(name server.HeaderName, value string)) {
	least := -1
	for i, b := range l.bounds {
		if b.kind == kind && b.scope != ofFleet && (least < 0 || l.levels[i].Remaining < l.levels[least].Remaining) {
			least = i
		}
	}
	if least < 0 {
		return
	}
	set(names.limit, strconv.FormatFloat(l.demands[least].Limit, 'f', -1, 64))
	set(names.remaining, strconv.FormatFloat(math.Floor(l.levels[least].Remaining+0.001), 'f', -1, 64)) // a clock of microseconds may lack a part of one
	set(names.reset, resetText(l.levels[least].Reset))
}

// resetText writes a time as OpenAI does: 12ms, 1s, 6m0s.
func resetText(d time.Duration) string {
	return ((d + time.Millisecond - 1) / time.Millisecond * time.Millisecond).String()
}
