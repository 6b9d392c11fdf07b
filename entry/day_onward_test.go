package entry

import (
	"context"
	"slices"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/openai"
	"colonnade/reasons"
)

// dayNode is the name of the one server of each colo.
const dayNode = "a"

// goesOn reports whether a request that the colo has refused goes on to the next stop of its token, as package colo decides it.
func (k *dayColo) goesOn(r *peer.Request, refused *peer.Answer) bool {
	return refused.Verdict.Kind == hop.VerdictOOC && refused.Attempts == 0 && len(r.Token.Onward) > 0 && r.Token.HopsLeft > 0
}

// goOn sends a request that the colo has refused to the next stop, and returns the answer from there, with the verdicts of all colos that did
// not serve the request.
func (k *dayColo) goOn(ctx context.Context, c *dayClient, r *peer.Request, refused *peer.Answer) *peer.Answer {
	stop := r.Token.Onward[0]
	next, further := k.day.byName[stop.Colo], *r
	t := &further.Token
	t.Visited = append(slices.Clip(t.Visited), hop.NodeName(k.name, dayNode))
	t.Onward, t.HopsLeft, t.ReturnProbability = t.Onward[1:], t.HopsLeft-1, stop.ReturnProbability
	t.Waited += hop.Millis(refused.Queued)
	if own := hop.Millis(refused.Verdict.Expected); stop.Last && refused.Verdict.MayWait && own > 0 && (t.WaitBelow == 0 || own < t.WaitBelow) {
		t.WaitBelow = own
	}
	c.coloBytes += int64(len(r.Body))
	visits := []hop.Visit{k.visit(refused)}
	answer, err := next.ask(ctx, k.city, &further)
	switch {
	case err != nil:
		visits = append(visits, hop.Visit{Colo: next.name, Node: dayNode, Verdict: onwardVerdict(err)})
	case answer.Response != nil:
		c.coloBytes += dayAnswer
		c.relayedBy(k)
		answer.Visits = append(visits, answer.Visits...)
		if answer.ServedBy == "" {
			answer.ServedBy = hop.NodeName(next.name, dayNode)
		}
		return answer
	case len(answer.Visits) > 0:
		visits = append(visits, answer.Visits...)
	default:
		visits = append(visits, next.visit(answer))
	}
	refused.Visits = visits
	return refused
}

// visit returns the visit of a request that the colo did not serve.
func (k *dayColo) visit(a *peer.Answer) hop.Visit {
	return hop.Visit{Colo: k.name, Node: dayNode, Verdict: a.Verdict, Load: a.Load, HasLoad: a.HasLoad, Queued: a.Queued, Attempts: a.Attempts}
}

// onwardVerdict returns the verdict about a colo that did not answer.
func onwardVerdict(err error) hop.Verdict {
	if peer.ClassifyFailure(err, time.Now().Add(time.Hour)).Kind == peer.FailureNotConnected {
		return hop.Verdict{Kind: hop.VerdictUnread, Number: openai.NumberUnavailable, Reason: reasons.NoServer}
	}
	return hop.Verdict{Kind: hop.VerdictLost, Number: openai.NumberEngineFailed, Reason: reasons.ColoUnreachable}
}
