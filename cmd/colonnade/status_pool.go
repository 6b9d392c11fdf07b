package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"colonnade/colo"
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
	write(p.Queue.Bytes > 0, "bytes", "%s of %s wait", size(p.Queue.Bytes), size(p.Queue.BytesLimit))
}

// refusals lists the refusals by reason, the most frequent first.
func refusals(p *colo.PoolState) string {
	names := slices.SortedFunc(maps.Keys(p.Refused), func(a, b permits.Reason) int {
		return cmp.Or(cmp.Compare(p.Refused[b], p.Refused[a]), strings.Compare(string(a), string(b)))
	})
	var texts []string
	for _, name := range names {
		if !wentOn(p, name) {
			texts = append(texts, fmt.Sprintf("%s %d", name, p.Refused[name]))
		}
	}
	return strings.Join(texts, ", ")
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
		rows = append(rows, []any{cmp.Or(e.ID, e.URL), out.bar(e.Held, e.Concurrency, colour), out.paint(colour, ofMost(e.Held, e.Concurrency)), p.endpointState(out, e)})
	}
	if len(rows) > 0 {
		out.table("  ", []string{"~ENDPOINT", "", ">SLOTS", "~STATE"}, rows)
	}
	if more > 0 {
		out.line(out.paint(text.Faint, "  and "+count(more, "endpoint")+"; -pool shows all"))
	}
}

func (p *poolView) endpointState(out *screen, e permits.EndpointStats) painted {
	state, colour := e.State, text.FgGreen
	switch {
	case e.Withheld:
		colour = text.Faint // another server of the colo may grant its slots
	case e.Draining:
		colour = text.FgYellow
		state += fmt.Sprintf(" (%d in hand)", e.Held)
		if e.Reason != "" {
			state += ", its health check fails: " + e.Reason
		}
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
