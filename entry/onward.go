package entry

import (
	"slices"
	"strings"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/openai"
	"colonnade/routing"
)

// onwardGain is by how much a colo must be nearer to the next one of a plan than this entry is, so that a request goes on from there.
// Relaying would cost more than it saves otherwise.
const onwardGain = 10 * time.Millisecond

// onwardRule decides how far the servers of a plan may forward a request by themselves.
type onwardRule struct {
	limit int // number of stops; 0 = the request always comes back first
	// stop returns the stop at a colo, for a request that has been at another colo before. ok is false if the request should rather come back
	// to the entry first.
	stop func(before *fleet.Colo, next candidate) (stop hop.Stop, ok bool)
}

// onwardRule returns the rule for the request.
func (c *call) onwardRule() onwardRule {
	if c.route.API == openai.Realtime || len(c.raw) > c.model.Retry.ForwardBelow.Int() {
		return onwardRule{}
	}
	return onwardRule{limit: c.model.Retry.Hops - 1, stop: c.onwardStop}
}

// onwardStop returns the stop at a colo, if a request may go on there from the colo before.
func (c *call) onwardStop(before *fleet.Colo, next candidate) (stop hop.Stop, ok bool) {
	t := c.entry.config.Table()
	s, between := c.entry.onwardServer(t, c.model.Pool, before, next.Colo)
	if s == nil {
		return hop.Stop{}, false
	}
	return hop.Stop{
		Colo: s.Colo, Node: s.Node, Address: s.Address, Boot: s.Boot, ReturnProbability: next.returnProbability,
		RoundTrip: hop.Millis(between), Revision: t.ServersRevision(s.Colo),
	}, true
}

// onwardServer returns the server to which a request may go on by itself from the colo before, and the round trip between the two colos. It
// returns nil if this entry is as near, or the first server in line cannot be asked that way. The distances are guesses, since an entry cannot
// measure that between two others; its own distance is the measured one if that is shorter, so that a wrong guess sends no request on a detour.
func (e *Entry) onwardServer(t *fleet.Table, pool string, before, next *fleet.Colo) (s *fleet.Server, between time.Duration) {
	between, own := routing.Guess(placeOf(before), placeOf(next)), routing.Guess(e.place(), placeOf(next))
	if measured, known := e.observed.measured(next); known {
		own = min(own, measured)
	}
	line := e.ranking.of(t, poolIn{pool, next.Name})
	if between+onwardGain > own || len(line) == 0 || !goesOnward(line[0]) || e.sender.Watcher.IsSilent(peerOf(line[0])) {
		return nil, 0
	}
	return line[0], between
}

// goesOnward reports whether a server forwards requests by itself, and can be forwarded to.
func goesOnward(s *fleet.Server) bool { return s.Protocol.Max >= hop.NodeNamesProtocol }

// place is where the entry is.
func (e *Entry) place() routing.Place {
	return routing.Place{Region: e.config.Region, Position: e.config.Position}
}

func placeOf(c *fleet.Colo) routing.Place {
	return routing.Place{Region: c.Region, Position: c.Position}
}

// onward returns the stops that the server of an attempt may go on to by itself if its colo is out of capacity: the next colos of the plan, in
// the order in which they would be asked. It never waits in one for long, so the last try, which may wait, stays with the entry.
func (t *attempts) onward(at attempt) []hop.Stop {
	if at.wait == hop.WaitFull || !goesOnward(at.server()) {
		return nil
	}
	var stops []hop.Stop
	before := at.Colo
	for _, next := range t.candidates[:min(len(t.candidates), max(min(t.onwardRule.limit, t.fullLeft), 0))] {
		stop, ok := t.onwardRule.stop(before, next)
		if !ok {
			break
		}
		stop.Last = len(stops)+1 == len(t.candidates)
		stops, before = append(stops, stop), next.Colo
	}
	return stops
}

// reservedFrom returns the part of a deadline that servers keep for the way back, if the request of the attempt went on as far as a colo.
func (a *attempt) reservedFrom(colo string) (sum time.Duration) {
	if colo == a.Colo.Name {
		return 0
	}
	for _, s := range a.onward {
		sum += max(reservedForReturn, 2*time.Duration(s.RoundTrip))
		if s.Colo == colo {
			break
		}
	}
	return sum
}

// visited returns the attempt that a server has made on the entry's behalf, after an attempt of the entry itself; its colo is not asked again
// but for the last try. ok is false if the request was not to go there.
func (t *attempts) visited(first attempt, colo, node string) (at attempt, ok bool) {
	if colo == first.Colo.Name {
		return first, true
	}
	i := slices.IndexFunc(t.candidates, func(s candidate) bool { return s.Colo.Name == colo })
	if i < 0 || !slices.ContainsFunc(first.onward, func(s hop.Stop) bool { return s.Colo == colo }) {
		return attempt{}, false
	}
	s := t.candidates[i]
	t.candidates = slices.Delete(slices.Clone(t.candidates), i, i+1)
	return attempt{candidate: s, line: line{servers: firstNode(t.rank(colo), colo, node)}, wait: first.wait}, true
}

// firstNode returns the servers of a colo with that of a node in front.
func firstNode(servers []*fleet.Server, colo, node string) []*fleet.Server {
	i := slices.IndexFunc(servers, func(s *fleet.Server) bool { return s.Node == node })
	switch {
	case i == 0:
		return servers
	case i < 0:
		return append([]*fleet.Server{{Colo: colo, Node: node}}, servers...)
	}
	return slices.Concat(servers[i:i+1], servers[:i], servers[i+1:])
}

// colosAsked returns the colos on the path of the request, in order, each once.
func (c *call) colosAsked() []string {
	var colos []string
	for _, server := range c.path {
		if colo, _, _ := strings.Cut(server, "/"); !slices.Contains(colos, colo) {
			colos = append(colos, colo)
		}
	}
	return colos
}
