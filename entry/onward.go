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

// onwardGain is the least difference between the round trip from this entry to the next colo of a plan and the round trip from the colo before
// to it, for which the colo before forwards requests. A smaller difference would save less than the relaying costs.
const onwardGain = 10 * time.Millisecond

// onwardRule decides which colos of a plan may forward a request to the next one by themselves.
type onwardRule struct {
	limit int // greatest number of stops; 0 = no colo forwards the request
	// stop returns the stop at the colo of next, to which the colo before may forward the request. ok is false if the colo before must
	// answer the entry instead.
	stop func(before *fleet.Colo, next candidate) (stop hop.Stop, ok bool)
}

// onwardRule returns the rule for the request.
func (c *call) onwardRule() onwardRule {
	if c.route.API == openai.Realtime || len(c.raw) > c.model.Retry.ForwardBelow.Int() {
		return onwardRule{}
	}
	return onwardRule{limit: c.model.Retry.Hops - 1, stop: c.onwardStop}
}

// onwardStop is the stop function of an [onwardRule].
func (c *call) onwardStop(before *fleet.Colo, next candidate) (stop hop.Stop, ok bool) {
	t := c.entry.config.Table()
	s, between := c.entry.onwardServer(t, c.model.Pool, before, next.Colo)
	if s == nil {
		return hop.Stop{}, false
	}
	return hop.Stop{
		Colo: s.Colo, Node: s.Node, Address: s.Address, Boot: s.Boot, Protocol: s.Protocol.Max, ReturnProbability: next.returnProbability,
		RoundTrip: hop.Millis(between), Revision: t.ServersRevision(s.Colo),
	}, true
}

// onwardServer returns the server to which the colo before may forward a request, and the round trip between the two colos. It returns nil if
// that round trip is not shorter than this entry's by onwardGain, or if the first server in line is silent or does not accept forwarded
// requests. The round trip between the colos is a guess, since an entry cannot measure it. To compare like with like, the entry's own is a
// guess too, unless the measured one is shorter: a wrong guess must not send a request on a detour.
func (e *Entry) onwardServer(t *fleet.Table, pool string, before, next *fleet.Colo) (s *fleet.Server, between time.Duration) {
	between, own := routing.Guess(placeOf(before), placeOf(next)), routing.Guess(e.place(), placeOf(next))
	if measured, known := e.observed.measured(next); known {
		own = min(own, measured)
	}
	line := e.ranking.of(t, poolIn{pool, next.Name})
	if between+onwardGain > own || len(line) == 0 || !canForward(line[0]) || e.sender.Watcher.IsSilent(peerOf(line[0])) {
		return nil, 0
	}
	return line[0], between
}

// canForward reports whether a server is of a version that forwards requests to other colos and accepts them from other colos.
func canForward(s *fleet.Server) bool { return s.Protocol.Max >= hop.NodeNamesProtocol }

// place is where the entry is.
func (e *Entry) place() routing.Place {
	return routing.Place{Region: e.config.Region, Position: e.config.Position}
}

func placeOf(c *fleet.Colo) routing.Place {
	return routing.Place{Region: c.Region, Position: c.Position}
}

// onward returns the stops to which the server of an attempt may forward the request if its colo is out of capacity: the next colos of the plan,
// in the order in which the entry would ask them. There are none for the last try, in which a request may wait long: only the entry makes it.
// left is how many attempts the retry budget allows.
func (t *attempts) onward(at attempt, left int) []hop.Stop {
	if at.wait == hop.WaitFull || !canForward(at.server()) {
		return nil
	}
	var stops []hop.Stop
	before := at.Colo
	for _, next := range t.candidates[:min(len(t.candidates), max(min(t.onwardRule.limit, t.fullLeft), 0))] {
		stop, ok := t.onwardRule.stop(before, next)
		if !ok {
			break
		}
		stop.Last = len(stops)+1 == len(t.candidates) && !t.noLongWait
		stop.NoAlternative = stop.Last && !t.mayGoOn && len(t.waitingRooms) == 0 && len(t.rank(next.Colo.Name)) < 2 || !t.mayLoseServer(left)
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

// hasStop reports whether the request of the attempt may go on to a colo.
func (a *attempt) hasStop(colo string) bool {
	return slices.ContainsFunc(a.onward, func(s hop.Stop) bool { return s.Colo == colo })
}

// visited returns the attempt at a server to which a colo has forwarded the request after first, an attempt of the entry itself. It removes the
// server's colo from the candidates, so that only the last try may ask the colo again. ok is false if first had no stop there.
func (t *attempts) visited(first attempt, colo, node string) (at attempt, ok bool) {
	if colo == first.Colo.Name {
		return first, true
	}
	i := slices.IndexFunc(t.candidates, func(s candidate) bool { return s.Colo.Name == colo })
	if i < 0 || !first.hasStop(colo) {
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
