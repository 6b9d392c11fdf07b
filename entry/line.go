package entry

import (
	"slices"
	"sync"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/homes"
	"colonnade/openai"
)

// maxMoves is how often one request may be sent to another server of a colo because a server there has named that one as the home.
const maxMoves = 4

// maxChanges is how often changes of the colo's servers let a request move maxMoves times more. A request that waits for long outlives many.
const maxChanges = 50

// maxStandIns is how often a request that was moved maxMoves times, and has no other colo left, is sent to one of two servers that name each
// other, to wait there. Two servers name each other while one of them has not learned yet which one may grant.
const maxStandIns = 2

// line is the order in which a request goes to the servers of one colo, and which of them have not answered. It is immutable: methods return
// a changed copy, and attempts may share its slices.
type line struct {
	servers    []*fleet.Server // the servers that are left, the next one first
	passed     []string        // nodes that were in servers and are not any more
	unanswered []string        // nodes that did not answer
	draining   []*fleet.Server // processes that have answered that they drain; others may not know
	moves      int             // how often a server has named another one as the home, since the last change of the colo's servers
	changes    int             // how often moves has begun anew, since a server knew newer changes
	revision   int64           // newest revision by which a server has named another one
}

// ranking caches the orders of servers of one table, since computing one takes a microsecond. It is safe for concurrent use.
type ranking struct {
	mu     sync.Mutex // guards the fields below
	table  *fleet.Table
	orders map[poolIn][]*fleet.Server
}

// of returns the order of the servers of a colo for a pool; see [rankServers].
func (r *ranking) of(t *fleet.Table, at poolIn) []*fleet.Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.table != t {
		r.table, r.orders = t, map[poolIn][]*fleet.Server{}
	}
	order, ok := r.orders[at]
	if !ok {
		order = rankServers(t, at.pool, at.colo)
		r.orders[at] = order
	}
	return order
}

// rankServers returns the order in which a request for a pool asks the active servers of a colo: the home, those that would take over,
// and then those whose lease has expired, which may be alive.
func rankServers(t *fleet.Table, pool, colo string) []*fleet.Server {
	servers := t.Servers(colo)
	if len(servers) == 1 && servers[0].State == fleet.StateActive {
		return servers
	}
	ranked := homes.Rank(pool, servers)
	expired := func(s *fleet.Server) int {
		if isExpired(t, s) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(ranked, func(a, b *fleet.Server) int { return expired(a) - expired(b) })
	return ranked
}

// isExpired reports whether the lease of a server has expired.
func isExpired(t *fleet.Table, s *fleet.Server) bool {
	_, found := slices.BinarySearch(t.ExpiredLeases, fleet.KindServer.Key(s.Colo, s.Node))
	return found
}

// knownUpTo returns the line after a server has named another one, when it knew the changes of the colo's servers up to a revision. The next
// server waits until it knows them too, so that two servers do not name each other in turns.
func (l line) knownUpTo(revision int64) line {
	if revision > l.revision && l.changes < maxChanges {
		l.moves = 0
		l.changes++
	}
	l.revision = max(l.revision, revision)
	return l
}

// noteDraining returns the line after its first server has answered whether it drains.
func (l line) noteDraining(drains bool) line {
	if drains {
		l.draining = append(slices.Clip(l.draining), l.servers[0])
	}
	return l
}

// isDraining reports whether a process has answered that it drains.
func (l line) isDraining(s *fleet.Server) bool {
	return slices.ContainsFunc(l.draining, func(d *fleet.Server) bool { return d.Node == s.Node && d.Boot == s.Boot })
}

// mayServe reports whether a server has neither failed to answer this request nor answered that it drains.
func (l line) mayServe(s *fleet.Server) bool {
	return !l.isDraining(s) && !slices.Contains(l.unanswered, s.Node)
}

// next returns the line without its first server.
func (l line) next() line {
	l.passed = append(slices.Clip(l.passed), l.servers[0].Node)
	l.servers = l.servers[1:]
	return l
}

// withServers returns the line with those servers added that were never in it.
func (l line) withServers(servers []*fleet.Server) line {
	for _, s := range servers {
		known := slices.ContainsFunc(l.servers, func(other *fleet.Server) bool { return other.Node == s.Node })
		if !known && !slices.Contains(l.passed, s.Node) && !slices.Contains(l.unanswered, s.Node) {
			l.servers = append(slices.Clip(l.servers), s)
		}
	}
	return l
}

// withoutSilent returns the line without its first server, which has not answered, and notes that.
func (l line) withoutSilent() line {
	if node := l.servers[0].Node; !slices.Contains(l.unanswered, node) {
		l.unanswered = append(slices.Clip(l.unanswered), node)
	}
	return l.next()
}

// movedTo returns the line with home in front. The server that has named the home comes second, for when the home does not answer, unless it
// drains.
func (l line) movedTo(home *fleet.Server) line {
	if l.isDraining(l.servers[0]) {
		l = l.next()
	}
	servers := make([]*fleet.Server, 0, len(l.servers)+1)
	servers = append(servers, home)
	for _, s := range l.servers {
		if s.Node != home.Node {
			servers = append(servers, s)
		}
	}
	l.servers = servers
	l.unanswered = slices.DeleteFunc(slices.Clone(l.unanswered), func(node string) bool { return node == home.Node })
	l.moves++
	return l
}

// standIn returns the line after its first server has named home although maxMoves is reached. The request waits at one of the two, with a
// hop token that says that the other does not answer: at the first server, or at home if the first server has sent the request on as home answers.
func (l line) standIn(home *fleet.Server) line {
	at, instead := l.servers[0], home
	if slices.Contains(l.unanswered, home.Node) {
		at, instead = home, at
	}
	l = l.movedTo(at)
	l.servers = slices.DeleteFunc(l.servers, func(s *fleet.Server) bool { return s.Node == instead.Node })
	l.unanswered = []string{instead.Node}
	return l
}

// standInFor returns the line after its first server has named a home that has answered that it drains: the request waits at the first server.
func (l line) standInFor(home *fleet.Server) line {
	l.servers = slices.DeleteFunc(slices.Clone(l.servers), func(s *fleet.Server) bool { return s.Node == home.Node })
	if !slices.Contains(l.unanswered, home.Node) {
		l.unanswered = append(slices.Clip(l.unanswered), home.Node)
	}
	l.moves++
	return l
}

// moved notes that the server of an attempt drains or is not the home. No budget is charged. home is the server that it has named; nil = it
// has named none that is known, so the next one in line follows, as after a server that drains and names one that drains or did not answer.
// waited means that the request had a place in the server's queue.
func (t *attempts) moved(at attempt, home *fleet.Server, waited bool, e *openai.Error) {
	isNamed := home != nil && home.Node != at.server().Node
	others := at.line.next().withServers(t.rank(at.Colo.Name))
	switch {
	case at.line.isDraining(at.server()) && len(others.servers) > 0 && !(isNamed && at.line.mayServe(home)):
		at.line = others
	case isNamed && at.line.isDraining(home) && !at.line.isDraining(at.server()) && at.line.moves < maxMoves:
		at.line = at.line.standInFor(home)
	case isNamed && at.line.moves < maxMoves:
		at.line = at.line.movedTo(home)
	case isNamed && at.line.moves < maxMoves+maxStandIns && !t.more():
		at.line = at.line.standIn(home)
	case !isNamed && len(others.servers) > 0:
		at.line = others
	default:
		t.noteRefusal(at.Colo, e, false)
		return
	}
	at.rejoin = at.rejoin || waited
	t.inColo, t.movedAway = &at, e
}

// noAnswer notes that the server of an attempt has not answered: the next server of the colo follows, or if none is left, those that have
// joined meanwhile.
func (t *attempts) noAnswer(at attempt) {
	at.line = at.line.withoutSilent()
	if len(at.line.servers) == 0 {
		at.line = at.line.withServers(t.rank(at.Colo.Name))
	}
	if len(at.line.servers) > 0 {
		t.inColo = &at
	}
}

// staysInColo reports whether the request goes on to another server of the colo that it asked last.
func (t *attempts) staysInColo() bool { return t.inColo != nil && !t.over }

// hasAnotherServer reports whether the request can go to a server other than that of an attempt.
func (t *attempts) hasAnotherServer(at *attempt) bool {
	return len(at.line.servers) > 1 || t.more() || t.mayGoOn || len(at.line.withServers(t.rank(at.Colo.Name)).servers) > 1
}

// mayLose reports whether the request could go on if the server of an attempt were lost. left is how many attempts the retry budget allows.
func (t *attempts) mayLose(at *attempt, left int) bool {
	return t.hasAnotherServer(at) && t.mayLoseServer(left)
}

// mayLoseServer reports whether the budgets allow another attempt after the loss of a server.
func (t *attempts) mayLoseServer(left int) bool {
	return !t.lostServerOnce || t.errorsLeft > 0 && left > 0
}

// serverLost notes that the server of an attempt was lost without a verdict. The first loss is not charged; further ones count as errors.
func (t *attempts) serverLost(at attempt, e *openai.Error, budget func() bool) {
	t.noAnswer(at)
	if t.lostServerOnce {
		t.failed(e, hop.Verdict{}, budget)
		return
	}
	t.lostServerOnce, t.failure = true, e
}

// notConnected notes that the server of an attempt could not be connected.
func (t *attempts) notConnected(at attempt, e *openai.Error) {
	t.noAnswer(at)
	t.notSent(e)
}
