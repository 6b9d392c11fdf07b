package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"colonnade/colo"
	"colonnade/fleet"
	"colonnade/homes"
	"colonnade/permits"
)

// mostEndpoints is how many endpoints of a pool are shown, unless the pool is asked for.
const mostEndpoints = 16

// draw writes what is in a pool: its counters, endpoints, bands and accounts.
func (p *poolView) draw(out *screen, everything bool) {
	q := p.Queue
	out.paragraph("", out.paint(text.Bold, p.Pool+" in "+p.Colo)+"  "+out.paint(text.Faint, fmt.Sprintf(
		"%s; %s by %s; at most %d requests of an account wait, for %s", p.whereabouts(), q.Discipline, q.Cost, q.PerAccount, millis(q.MaxWaitMs))))
	p.drawCounters(out)
	p.drawEndpoints(out, everything)
	p.drawOthers(out)
	var bands, accounts [][]any
	for _, b := range p.Bands {
		if b.Held > 0 || b.Queued > 0 {
			bands = append(bands, []any{b.Band, b.Held, b.Queued, age(b.OldestMillis), b.Accounts})
		}
	}
	for i := range p.Accounts {
		accounts = append(accounts, p.accountRow(out, &p.Accounts[i]))
	}
	if len(bands) > 0 {
		out.table("  ", []string{"~BAND", ">HELD", ">WAITING", ">OLDEST", ">ACCOUNTS"}, bands)
	}
	if len(accounts) > 0 {
		out.table("  ", []string{"~ACCOUNT", ">HELD", ">WAITING", ">OLDEST", ">RETRIES", ">WEIGHT", ">LEAD", ">OUTPUT", "~BANDS"}, accounts)
	}
	if n := p.OtherAccounts; n > 0 && len(accounts) > 0 {
		out.line(out.paint(text.Faint, "  and "+count(n, "account")+" with less; -accounts shows more"))
	}
}

// drawCounters writes what the overview does not say.
func (p *poolView) drawCounters(out *screen) {
	write := func(known bool, name, format string, args ...any) {
		if known {
			out.paragraph(fmt.Sprintf("  %-8s  ", name), fmt.Sprintf(format, args...))
		}
	}
	held := ""
	if p.MeanHeldMillis != nil {
		held = fmt.Sprintf(", held for %s each", brief(seconds(*p.MeanHeldMillis/1e3)))
	}
	write(true, "granted", "%d%s", p.Granted, held)
	write(refused(p.PoolState) > 0, "refused", "%d: %s", refused(p.PoolState), refusals(p.PoolState))
	write(p.Refused[permits.Busy] > 0, "busy", "%d, which usually went to another colo", p.Refused[permits.Busy])
	if n := p.Refused[permits.NoEndpoint]; len(p.Endpoints) == 0 {
		write(n > 0, "no engine", "%d, which went to another colo: this one has no engine of the pool", n)
	}
	write(p.PendingRetries > 0, "retries", "%d pending: refused, with a Retry-After that is not due yet", p.PendingRetries)
	write(p.FullSeconds >= 1, "full", "no slot free for %s in total%s", brief(seconds(p.FullSeconds)), p.full)
	noSlot := p.noSlot()
	write(noSlot != "", "no slot", "%s", noSlot)
	write(p.Queue.Bytes > 0, "bytes", "%s of %s wait", size(p.Queue.Bytes), size(p.Queue.BytesLimit))
}

// refusals lists the refusals by reason, the most frequent first.
func refusals(p *colo.PoolState) string {
	return byReason(p.Refused, func(r permits.Reason) bool { return !wentOn(p, r) })
}

// byReason lists those of some refusals that are wanted, the most frequent first.
func byReason(refused map[permits.Reason]uint64, wanted func(permits.Reason) bool) string {
	names := slices.SortedFunc(maps.Keys(refused), func(a, b permits.Reason) int {
		return cmp.Or(cmp.Compare(refused[b], refused[a]), strings.Compare(string(a), string(b)))
	})
	var texts []string
	for _, name := range names {
		if wanted(name) {
			texts = append(texts, fmt.Sprintf("%s %d", name, refused[name]))
		}
	}
	return strings.Join(texts, ", ")
}

// noSlot says what there was of requests that take no slot, at all servers of the colo: each has places of its own for them.
func (p *poolView) noSlot() string {
	held, granted, all := 0, uint64(0), map[permits.Reason]uint64{}
	add := func(s *permits.NoSlotStats) {
		if s == nil {
			return
		}
		held, granted = held+s.Held, granted+s.Granted
		for reason, n := range s.Refused {
			all[reason] += n
		}
	}
	add(p.NoSlot)
	for i := range p.others {
		add(p.others[i].NoSlot)
	}
	if granted == 0 && len(all) == 0 {
		return ""
	}
	text := fmt.Sprintf("%d served beside the slots, %d running", granted, held)
	if len(all) > 0 {
		text += "; refused: " + byReason(all, func(permits.Reason) bool { return true })
	}
	return text
}

// drawEndpoints writes endpoints that are out first, then those that say that they are full, and those that drain.
func (p *poolView) drawEndpoints(out *screen, everything bool) {
	urgency := func(e permits.EndpointStats) int {
		switch {
		case e.State != "up" && !e.Withheld && !e.Draining:
			return 0
		case e.Full || e.Taken > 0 || e.Draining && !e.Withheld:
			return 1
		case e.Withheld:
			return 3
		}
		return 2
	}
	all := slices.Clone(p.Endpoints)
	slices.SortFunc(all, func(a, b permits.EndpointStats) int {
		return cmp.Or(cmp.Compare(urgency(a), urgency(b)), strings.Compare(a.ID, b.ID), strings.Compare(a.URL, b.URL))
	})
	more := 0
	if !everything && len(all) > mostEndpoints {
		all, more = all[:mostEndpoints], len(all)-mostEndpoints
	}
	var rows [][]any
	for _, e := range all {
		colour := slotColour(e.Held, e.Concurrency)
		state := p.endpointState(out, e)
		if everything {
			state += out.paint(text.Faint, p.gpusOf(e.ID))
		}
		rows = append(rows, []any{cmp.Or(e.ID, e.URL), out.bar(e.Held, e.Concurrency, colour), out.paint(colour, ofMost(e.Held, e.Concurrency)), state})
		if said := engineText(e.Engine); everything && said != "" {
			rows = append(rows, []any{"", "", "", out.paint(text.Faint, "engine: "+said)})
		}
		if known := cacheText(&e); everything && known != "" {
			rows = append(rows, []any{"", "", "", out.paint(text.Faint, "prefix cache: "+known)})
		}
	}
	if len(rows) > 0 {
		out.table("  ", []string{"~ENDPOINT", "", ">SLOTS", "~STATE"}, rows)
	}
	if more > 0 {
		out.line(out.paint(text.Faint, "  and "+count(more, "endpoint")+"; -pool shows all"))
	}
}

// gpusOf names the GPUs of an endpoint that has a worker.
func (p *poolView) gpusOf(endpoint string) string {
	for _, w := range p.workers {
		if w.Colo != p.Colo || w.Engine.Endpoint != endpoint || len(w.Engine.GPUs) == 0 {
			continue
		}
		m := machineState{}
		m.add(w, liveWorker{})
		return "; GPU " + m.numbers(w.Engine.GPUs) + " of " + cmp.Or(w.Machine, w.Node)
	}
	return ""
}

func (p *poolView) endpointState(out *screen, e permits.EndpointStats) painted {
	state, colour := e.State, text.FgGreen
	switch {
	case e.Draining && (!e.Withheld || e.State == fleet.StateDraining):
		colour = text.FgYellow
		state += fmt.Sprintf(" (%d in hand)", e.Held)
		if e.Reason != "" {
			state += ": " + e.Reason
		}
	case e.Withheld:
		colour = text.Faint // another server of the colo may grant its slots
	case e.State != "up":
		colour = text.FgRed
		if e.StateSeconds != nil {
			state += " for " + brief(seconds(*e.StateSeconds))
		}
		if e.Reason != "" {
			state += ": " + e.Reason
		}
	}
	if e.Auto != nil {
		state += fmt.Sprintf(", auto %d-%d", e.Auto.Min, e.Auto.Max)
		if e.Auto.Samples == 0 {
			state += ", nothing learned yet: no streamed answers"
		}
	}
	if e.Engine != nil && e.Engine.Waiting != nil && *e.Engine.Waiting > 0 {
		state += fmt.Sprintf(", %s waiting inside", count(*e.Engine.Waiting, "request"))
	}
	if e.Full {
		state, colour = state+", said full", text.FgYellow
	}
	if e.Taken > 0 {
		state, colour = state+p.takenBy(e), text.FgYellow
	}
	for _, l := range p.Lacks {
		if l.URL == e.URL {
			state, colour = state+", "+lackText(l), text.FgYellow
		}
	}
	if o := p.ownership(e.URL); o.State == homes.StateWanted {
		state, colour = state+", not granted yet"+p.waitsFor(o), text.FgYellow
	}
	return out.paint(colour, state)
}

// engineText is what an engine says about itself in its metrics; empty if they are not read.
func engineText(e *permits.EngineStats) string {
	if e == nil {
		return ""
	}
	var all []string
	number := func(name string, n *int) {
		if n != nil {
			all = append(all, fmt.Sprintf("%s %d", name, *n))
		}
	}
	percent := func(name string, n *float64) {
		if n != nil {
			all = append(all, fmt.Sprintf("%s %.0f %%", name, 100**n))
		}
	}
	number("running", e.Running)
	number("waiting", e.Waiting)
	if e.Beside != nil && *e.Beside > 0 {
		number("of other clients", e.Beside)
	}
	percent("KV cache", e.KVCache)
	percent("prefix hits", e.PrefixHits)
	if len(e.Adapters) > 0 {
		all = append(all, "adapters "+strings.Join(e.Adapters, ", "))
	}
	if e.AgeSeconds != nil && e.Error != "" {
		all = append(all, brief(seconds(*e.AgeSeconds))+" ago")
	}
	if e.Error != "" {
		all = append(all, e.Error)
	}
	return strings.Join(all, ", ")
}

// cacheText is what is known of an engine's prefix cache; empty if that is nothing.
func cacheText(e *permits.EndpointStats) string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	c := cmp.Or(e.Cache, &permits.CacheStats{})
	if e.Indexed > 0 || c.SizeBytes != nil {
		add("%s of prompts indexed", size(e.Indexed))
	}
	if c.SizeBytes != nil {
		add("room for %s", size(*c.SizeBytes))
	}
	if c.Losses > 0 {
		add("lost %s", count(int(c.Losses), "time"))
	}
	switch s := c.Events; {
	case s == nil:
	case s.Error != "":
		add("events cannot be read: %s", s.Error)
	case !s.Connected:
		add("events are not read yet")
	case s.ResidentTokens != nil:
		add("%d tokens resident by events", *s.ResidentTokens)
	default:
		add("%d events read", s.Events)
	}
	return strings.Join(all, ", ")
}

// lackText says which requests an endpoint does not get.
func lackText(l permits.LackStats) string {
	what := "no requests for the model " + l.Model
	if l.Path != "" {
		what = "no requests for " + l.Path
	}
	if l.AgainSeconds != nil {
		what += fmt.Sprintf(" for %s", brief(seconds(*l.AgainSeconds)))
	}
	return what + " (" + l.Reason + ")"
}

// accountRow is the row of an account. Its lead is that of the highest band in which it waits, or else is: it decides when
// the account has its next turn.
func (p *poolView) accountRow(out *screen, a *permits.AccountStats) []any {
	held, output, lead := fmt.Sprint(a.Held), "", 0.0
	if a.Cap != nil && *a.Cap < p.Limit {
		held = ofMost(a.Held, *a.Cap)
	}
	if a.MeanOutput != nil {
		output = figure(*a.MeanOutput)
	}
	var bands []string
	for i := len(a.Bands) - 1; i >= 0; i-- {
		b := a.Bands[i]
		if b.Queued == 0 && a.Queued > 0 {
			continue
		}
		lead = b.VTimeLead
		name := b.Band
		if b.Queued > 0 && len(a.Bands) > 1 {
			name += fmt.Sprintf(" %d", b.Queued)
		}
		bands = append([]string{name}, bands...)
	}
	where := painted(printable(strings.Join(bands, ", ")))
	if a.AtLimit {
		where += ", " + out.paint(text.FgYellow, "at its limit")
	}
	return []any{a.Account, held, a.Queued, age(a.OldestMillis), a.PendingRetries, figure(a.Weight), figure(lead), output, where}
}
