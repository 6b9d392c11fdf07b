package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"colonnade/permits"
)

// details writes what is in each pool, and returns how many it left out.
func (l *look) details(out *sheet, pools []shownPool, width int) (left int) {
	for _, p := range pools {
		if len(pools) > fewPools && p.idle() {
			left++
			continue
		}
		out.line()
		out.line(piece{shownASCII(p.Pool) + " in " + shownASCII(p.Colo), bold}, piece{"  " + p.title(), faint})
		for _, fact := range p.facts() {
			out.wrapped(fmt.Sprintf("  %-8s  %s", fact.name, fact.text), strings.Repeat(" ", 12), width, plain)
		}
		l.writeEndpoints(out, p)
		writeBands(out, p.Bands)
		writeAccounts(out, p)
	}
	return left
}

// title says whose a pool is and how it queues.
func (p shownPool) title() string {
	q := p.Queue
	texts := []string{"server " + shownASCII(cmp.Or(p.server.Node, p.server.Admin))}
	if q.Discipline != "" {
		texts = append(texts, fmt.Sprintf("%s by %s", shownASCII(q.Discipline), shownASCII(q.Cost)),
			fmt.Sprintf("at most %d of one account wait, for %s", q.PerAccount, millis(q.MaxWaitMs)))
	}
	return strings.Join(texts, "; ")
}

type fact struct{ name, text string }

// facts are what a pool is at, beside what the overview says.
func (p shownPool) facts() []fact {
	granted := fmt.Sprint(p.Granted) + p.pace.of(pace.grants)
	if p.MeanHeldMillis != nil {
		granted += fmt.Sprintf(", held for %s each", brief(seconds(*p.MeanHeldMillis/1e3)))
	}
	facts := []fact{{"granted", granted}}
	if n := refusedInAll(p.PoolState); n > 0 {
		facts = append(facts, fact{"refused", fmt.Sprint(n) + p.pace.of(pace.refusals) + ": " + reasons(p.PoolState)})
	}
	if n := p.Refused[permits.Busy]; n > 0 {
		facts = append(facts, fact{"busy", fmt.Sprint(n) + p.pace.of(pace.busies) + ", which as a rule went on to another colo"})
	}
	if p.PendingRetries > 0 {
		facts = append(facts, fact{"to come", fmt.Sprintf("%d told to come back, and not due yet", p.PendingRetries)})
	}
	if p.FullSeconds >= 1 {
		facts = append(facts, fact{"full", "no slot free for " + brief(seconds(p.FullSeconds)) + " in all" + p.pace.full()})
	}
	if p.Queue.Bytes > 0 {
		facts = append(facts, fact{"bytes", size(p.Queue.Bytes) + " of " + size(p.Queue.BytesLimit) + " wait"})
	}
	return facts
}

// seconds is a duration from elsewhere, which may be anything.
func seconds(s float64) time.Duration { return millis(int64(min(max(s, 0), 1e9) * 1000)) }

// size writes bytes in a unit that leaves few digits.
func size(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// writeEndpoints writes those first that are out.
func (l *look) writeEndpoints(out *sheet, p shownPool) {
	all := slices.Clone(p.Endpoints)
	slices.SortFunc(all, func(a, b permits.EndpointStats) int {
		return cmp.Or(cmp.Compare(urgency(a), urgency(b)), strings.Compare(a.ID, b.ID), strings.Compare(a.URL, b.URL))
	})
	var rest []permits.EndpointStats
	if l.options.pool == "" && len(all) > mostEndpoints {
		all, rest = all[:mostEndpoints], all[mostEndpoints:]
	}
	if len(all) == 0 {
		return
	}
	numbers := 0
	for _, e := range all {
		numbers = max(numbers, len(ofMost(e.Held, e.Concurrency)))
	}
	rows := [][]cell{{left("ENDPOINT", faint), left("SLOTS", faint), left("STATE", faint)}}
	for _, e := range all {
		text, in := state(e)
		rows = append(rows, []cell{
			left(seen(cmp.Or(e.ID, e.URL), nameWidth), plain),
			barCell(out, e.Held, e.Concurrency, numbers, slotStyle(e.Held, e.Concurrency)), left(text, in),
		})
	}
	out.table("  ", rows)
	if len(rest) > 0 {
		up, held, slots := 0, 0, 0
		for _, e := range rest {
			held, slots = held+e.Held, slots+e.Concurrency
			if e.State == "up" {
				up++
			}
		}
		out.line(piece{fmt.Sprintf("  and %d more, %d of them up, with %s slots held; -pool shows all", len(rest), up, ofMost(held, slots)), faint})
	}
}

// urgency orders endpoints: those that are out before those that say that they are full, and these before the others.
func urgency(e permits.EndpointStats) int {
	switch {
	case e.State != "up":
		return 0
	case e.Full || e.Taken > 0:
		return 1
	}
	return 2
}

func state(e permits.EndpointStats) (string, style) {
	text, in := shownASCII(e.State), fine
	if e.State != "up" {
		in = bad
		if e.StateSeconds != nil {
			text += " for " + brief(seconds(*e.StateSeconds))
		}
		if e.Reason != "" {
			text += ": " + shownASCII(e.Reason)
		}
	}
	if e.Auto != nil {
		text += fmt.Sprintf(", auto %d-%d", e.Auto.Min, e.Auto.Max)
		if e.Auto.Samples == 0 {
			text += ", nothing learned yet: no streamed answers"
		}
	}
	if e.Full {
		text, in = text+", said full", odd
	}
	if e.Taken > 0 {
		text, in = text+fmt.Sprintf(", %d held for another pool", e.Taken), odd
	}
	return text, in
}

// writeBands writes those in which anything is.
func writeBands(out *sheet, all []permits.BandStats) {
	rows := [][]cell{{left("BAND", faint), right("HELD", faint), right("WAITING", faint), right("OLDEST", faint), right("ACCOUNTS", faint)}}
	for _, b := range all {
		if b.Held == 0 && b.Queued == 0 {
			continue
		}
		rows = append(rows, []cell{
			left(seen(b.Band, nameWidth), plain), number(b.Held), number(b.Queued), right(age(b.OldestMillis), plain), number(b.Accounts),
		})
	}
	if len(rows) > 1 {
		out.table("  ", rows)
	}
}

func number(n int) cell { return right(fmt.Sprint(n), plain) }

// writeAccounts writes those that hold and wait most.
func writeAccounts(out *sheet, p shownPool) {
	if len(p.Accounts) == 0 {
		return
	}
	learned := slices.ContainsFunc(p.Accounts, func(a permits.AccountStats) bool { return a.MeanOutput != nil })
	head := []cell{
		left("ACCOUNT", faint), right("HELD", faint), right("WAITING", faint), right("OLDEST", faint), right("TOLD", faint),
		right("WEIGHT", faint), right("AHEAD", faint),
	}
	if learned {
		head = append(head, right("OUTPUT", faint))
	}
	rows := [][]cell{append(head, left("IN", faint))}
	for i := range p.Accounts {
		a := &p.Accounts[i]
		held := fmt.Sprint(a.Held)
		if a.Cap != nil && *a.Cap < p.Limit {
			held = ofMost(a.Held, *a.Cap)
		}
		row := []cell{
			left(seen(a.Account, nameWidth), plain), right(held, plain), number(a.Queued), right(age(a.OldestMillis), plain),
			number(a.PendingRetries), right(figure(a.Weight), plain), right(figure(ahead(a)), plain),
		}
		if learned {
			row = append(row, right(meanOutput(a), plain))
		}
		rows = append(rows, append(row, cell{pieces: where(a)}))
	}
	out.table("  ", rows)
	if n := p.OtherAccounts; n > 0 {
		out.line(piece{fmt.Sprintf("  and %d more, which %s less", n, oneMany(n, "holds or has waiting", "hold or have waiting")), faint})
	}
}

// meanOutput is what an account's last outputs have cost.
func meanOutput(a *permits.AccountStats) string {
	if a.MeanOutput == nil {
		return "-"
	}
	return figure(*a.MeanOutput)
}

// ahead is that of the band that decides when the account has its next turn: the highest in which it waits, or is.
func ahead(a *permits.AccountStats) float64 {
	for _, f := range a.Bands {
		if f.Queued > 0 || a.Queued == 0 {
			return f.VTimeLead
		}
	}
	return 0
}

// where says in which bands an account waits, and whether it is at its cap.
func where(a *permits.AccountStats) []piece {
	var texts []string
	for _, f := range a.Bands {
		switch {
		case len(a.Bands) == 1 || f.Queued == 0 && a.Queued == 0:
			texts = append(texts, shownASCII(f.Band))
		case f.Queued > 0:
			texts = append(texts, fmt.Sprintf("%s %d", shownASCII(f.Band), f.Queued))
		}
	}
	pieces := []piece{{text: strings.Join(texts, ", ")}}
	if a.AtLimit {
		pieces = append(pieces, piece{"  at its cap", odd})
	}
	return pieces
}
