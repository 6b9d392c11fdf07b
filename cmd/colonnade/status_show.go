package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"colonnade/colo"
	"colonnade/fleet"
	"colonnade/permits"
)

const (
	fewPools      = 8  // up to so many all have details
	mostEndpoints = 16 // of a pool, unless it is asked for
	wide          = 100
	nameWidth     = 28 // of columns with names
	narrowName    = 20 // the same in the overview, where there is little room
)

// shownPool is a pool and the server that said so.
type shownPool struct {
	*colo.PoolState
	server *serverStatus
	pace   *pace // nil: not known
}

// sheet writes what is known for people.
func (l *look) sheet(s *fleetStatus, t terminal) *sheet {
	width := lineWidth
	if t.is {
		width = min(max(t.width, 60), 160)
	}
	out := &sheet{ascii: t.ascii}
	from := "etcd " + s.Etcd
	if s.Etcd == "" {
		from = l.options.admin
	}
	out.line(piece{s.Time.Local().Format("2006-01-02 15:04:05"), bold}, piece{"  " + shownASCII(from), faint})
	s.rejections(out, width)
	pools := s.pools()
	if len(pools) > 0 {
		out.line()
		l.overview(out, pools, width)
	}
	if l.options.watch { // where it is in sight, however much follows
		s.wrong(out, width)
	}
	if left := l.details(out, pools, width); left > 0 {
		out.line()
		out.line(piece{fmt.Sprintf("%s where nothing happens: no details, but with -pool", count(left, "pool")), faint})
	}
	if !l.options.watch {
		s.wrong(out, width)
	}
	return out
}

// rejections are at the top: what is below them may not be what was meant.
func (s *fleetStatus) rejections(out *sheet, width int) {
	for _, text := range s.Wrong[:len(s.Rejected)] {
		out.wrapped("wrong: "+shownASCII(text), "  ", width, bad)
	}
}

// wrong is the rest of it.
func (s *fleetStatus) wrong(out *sheet, width int) {
	rest := s.Wrong[len(s.Rejected):]
	if len(rest) == 0 {
		return
	}
	out.line()
	out.line(piece{"wrong:", bad})
	for _, text := range rest {
		out.wrapped("- "+shownASCII(text), "  ", width, plain)
	}
}

func (s *fleetStatus) pools() []shownPool {
	var pools []shownPool
	for i := range s.Servers {
		n := &s.Servers[i]
		for j := range n.Pools {
			p := shownPool{PoolState: &n.Pools[j], server: n}
			if pace, ok := s.paces[paceKey(n, p.Pool)]; ok {
				p.pace = &pace
			}
			pools = append(pools, p)
		}
	}
	return pools
}

// overview writes a line for each pool.
func (l *look) overview(out *sheet, pools []shownPool, width int) {
	paces, names := l.options.watch && width >= wide, narrowName
	if width > wide {
		names = nameWidth
	}
	var head []cell
	for _, name := range []string{"COLO", "POOL", "SLOTS", "QUEUE"} {
		head = append(head, left(name, faint))
	}
	for _, name := range []string{"DRAIN", "WAIT", "OLDEST"} {
		head = append(head, right(name, faint))
	}
	head = append(head, left("", plain))
	if paces {
		head = append(head, right("GRANTS", faint), right("REFUSED", faint))
	}
	rows := [][]cell{head}
	slots, queue := 0, 0 // the widest numbers
	for _, p := range pools {
		slots = max(slots, len(ofMost(p.Held, p.Limit)))
		queue = max(queue, len(ofMost(p.Queued, p.Queue.Limit)))
	}
	for _, p := range pools {
		row := []cell{
			left(seen(p.Colo, names), bold), left(seen(p.Pool, names), bold),
			barCell(out, p.Held, p.Limit, slots, slotStyle(p.Held, p.Limit)),
			barCell(out, p.Queued, p.Queue.Limit, queue, queueStyle(p.Queued, p.Queue.Limit)),
			right(rate(p.RatePerSecond), plain), right(p.wait(), plain), right(age(p.Queue.OldestMillis), plain),
		}
		text, style := p.note()
		row = append(row, left(text, style))
		if paces {
			row = append(row, paceCells(p.pace)...)
		}
		rows = append(rows, row)
	}
	out.table("", rows)
}

func ofMost(n, most int) string { return fmt.Sprintf("%d/%d", n, most) }

func barCell(out *sheet, used, all, width int, in style) cell {
	return cell{pieces: append(out.bar(used, all, in), piece{fmt.Sprintf(" %*s", width, ofMost(used, all)), plain})}
}

// All slots held is what slots are there for; a queue that is nearly full is not.
func slotStyle(held, limit int) style {
	if held >= limit {
		return odd
	}
	return fine
}

func queueStyle(queued, limit int) style {
	if 10*queued >= 8*limit {
		return bad
	}
	return odd
}

func paceCells(p *pace) []cell {
	if p == nil {
		return []cell{right("-", faint), right("-", faint)}
	}
	refused := plain
	if p.refusals() > 0 {
		refused = bad
	}
	return []cell{right(perSecond(p.each(pace.grants)), plain), right(perSecond(p.each(pace.refusals)), refused)}
}

// rate is what happens in a second; ? where that is not known.
func rate(perS float64) string {
	if perS <= 0 {
		return "?"
	}
	return perSecond(perS)
}

func perSecond(x float64) string { return figure(x) + "/s" }

// figure writes a number with three digits.
func figure(x float64) string {
	switch {
	case x >= 999_500:
		return fmt.Sprintf("%.3gM", x/1e6)
	case x >= 999.5:
		return fmt.Sprintf("%.3gk", x/1e3)
	case x > 0 && x < 0.01:
		return "<0.01"
	}
	return fmt.Sprintf("%.3g", x)
}

func (p shownPool) wait() string {
	switch ms := p.ExpectedMillis; {
	case ms == nil:
		return "?"
	case *ms <= 0:
		return "none"
	default:
		return brief(millis(*ms))
	}
}

// age is how long the oldest has waited; - if nobody waits.
func age(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return brief(millis(*ms))
}

// millis is a duration from elsewhere, which may be anything.
func millis(ms int64) time.Duration {
	const most = int64(1000 * time.Hour / time.Millisecond)
	return time.Duration(min(max(ms, 0), most)) * time.Millisecond
}

// note is what is odd about a pool, in few words.
func (p shownPool) note() (string, style) {
	var texts []string
	in := odd
	out, full := 0, 0
	for _, e := range p.Endpoints {
		if e.State != "up" {
			out++
		} else if e.Full {
			full++
		}
	}
	switch {
	case p.Draining || p.server.NotReady == fleet.StateDraining:
		texts = append(texts, "draining")
	case p.Queue.Discipline != "" && !p.Granting: // an older version does not say
		texts, in = append(texts, "NO GRANTS"), bad
	case p.server.NotReady != "":
		texts, in = append(texts, "NOT READY"), bad
	}
	switch {
	case len(p.Endpoints) == 0:
		texts, in = append(texts, "NO ENDPOINT"), bad
	case out > 0:
		texts, in = append(texts, fmt.Sprintf("%d/%d OUT", out, len(p.Endpoints))), bad
	}
	if full > 0 {
		texts = append(texts, fmt.Sprintf("%d full", full))
	}
	return strings.Join(texts, ", "), in
}

// idle says that nothing happens in a pool, and nothing is the matter with it.
func (p shownPool) idle() bool {
	text, _ := p.note()
	return p.Held == 0 && p.Queued == 0 && p.PendingRetries == 0 && text == ""
}

// reasons lists the refusals, the most frequent first.
func reasons(p *colo.PoolState) string {
	names := slices.SortedFunc(maps.Keys(p.Refused), func(a, b permits.Reason) int {
		return cmp.Or(cmp.Compare(p.Refused[b], p.Refused[a]), strings.Compare(string(a), string(b)))
	})
	var texts []string
	for _, name := range names {
		if name == permits.Busy {
			continue
		}
		texts = append(texts, fmt.Sprintf("%s %d", shownASCII(string(name)), p.Refused[name]))
	}
	return strings.Join(texts, ", ")
}
