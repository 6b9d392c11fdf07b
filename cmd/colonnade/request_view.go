package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"colonnade/analytics"
	"colonnade/reasons"
)

// drawRequests writes the newest of some requests.
func drawRequests(out *screen, requests []followedRequest) {
	if older := len(requests) - maxRequestsShown; older > 0 {
		out.paragraph("", out.paint(text.FgYellow, fmt.Sprintf("%d requests have this id; the newest %d are shown, -json has all, -since and -until select", len(requests), maxRequestsShown)))
		out.line()
		requests = requests[older:]
	}
	for i := range requests {
		if i > 0 {
			out.line()
		}
		requests[i].draw(out)
	}
}

func (r *followedRequest) draw(out *screen) {
	out.line("request ", out.paint(text.Bold, r.RequestID))
	facts := []string{r.Time.Local().Format("2006-01-02 15:04:05.000")}
	fact := func(name, value string) {
		if value != "" {
			facts = append(facts, name+" "+value)
		}
	}
	fact("account", r.Account)
	fact("key", r.Key)
	fact("model", r.Model)
	fact("client's id", r.ClientRequestID)
	out.paragraph("", strings.Join(facts, "  "))
	r.drawResults(out)
	out.line()
	r.drawHops(out)
	out.paragraph("", out.paint(text.Faint, "░ queued  ▒ waits for the first byte  █ answer; each hop counts its times from its own begin"))
	if r.ClocksDiffer {
		out.paragraph("", out.paint(text.FgYellow, "the clocks of the nodes differ: hops are placed by their order"))
	}
}

// drawHops writes a line for each hop.
func (r *followedRequest) drawHops(out *screen) {
	width := barsOf(out.width)
	var all time.Duration
	for i := range r.Hops {
		all = max(all, (r.Hops[i].Offset + max(r.Hops[i].End, r.Hops[i].FirstByte, r.Hops[i].Dispatched)).Std())
	}
	var rows [][]any
	for i := range r.Hops {
		h := &r.Hops[i]
		rows = append(rows, []any{
			out.paint(text.Bold, h.Node), h.what(), h.bar(out, all, width), hopTime(h.Queued), hopTime(h.Dispatched), hopTime(h.FirstByte), hopTime(h.End), h.ending(out),
		})
	}
	out.table("", []string{"~NODE", "~WHAT", "", ">QUEUED", "?>DISPATCHED", ">FIRST BYTE", ">END", "~"}, rows)
}

// barsOf returns the columns of a bar on a terminal of some width.
func barsOf(width int) int {
	if width == 0 {
		return 30
	}
	return min(max(width-85, 8), 50)
}

func hopTime(d analytics.Milliseconds) string {
	if d == 0 {
		return "-"
	}
	return brief(d.Std())
}

// what is what a hop was for.
func (h *hopView) what() string {
	switch h.Kind {
	case analytics.KindRequest:
		return "entry"
	case analytics.KindForward:
		return h.Colo + ", sent on"
	case analytics.KindInference:
		return h.Colo + "/" + h.Endpoint
	}
	return h.Colo + ", no permit"
}

// ending is how a hop ended, in few words.
func (h *hopView) ending(out *screen) painted {
	switch {
	case h.Kind == "":
		return ""
	case h.Outcome == "":
		return out.paint(text.FgYellow, "no end yet")
	case h.Outcome == analytics.OutcomeCompleted:
		return out.paint(text.FgGreen, fmt.Sprint(h.Status))
	case h.Status == 0:
		return out.paint(text.FgRed, string(h.Outcome))
	}
	return out.paint(text.FgRed, fmt.Sprintf("%d %s", h.Status, h.Outcome))
}

// bar shows when a hop queued, waited for the first byte, and answered.
func (h *hopView) bar(out *screen, all time.Duration, width int) painted {
	if h.Kind == "" || all <= 0 {
		return ""
	}
	column := func(d analytics.Milliseconds) int {
		return min(int(float64((h.Offset+d).Std())/float64(all)*float64(width)+0.5), width)
	}
	end := max(h.End, h.FirstByte, h.Dispatched)
	granted := cmp.Or(h.Dispatched, h.Queued)
	answered := h.FirstByte
	if answered == 0 {
		answered = end
	}
	cells := []rune(strings.Repeat(" ", width))
	fill := func(from, to int, mark rune) {
		for i := from; i < to; i++ {
			cells[i] = mark
		}
	}
	from, to := column(0), column(end)
	if to == from { // too short to be seen otherwise
		from = min(from, width-1)
		to = from + 1
	}
	fill(from, min(column(granted), to), '░')
	fill(max(from, min(column(granted), to)), min(max(column(answered), from), to), '▒')
	fill(max(from, min(column(answered), to)), to, '█')
	if cells[from] == ' ' {
		cells[from] = '▒'
	}
	return out.paint(text.FgCyan, painted(strings.TrimRight(string(cells), " ")))
}

// drawResults writes how the request ended, and why hops of it have failed.
func (r *followedRequest) drawResults(out *screen) {
	first := &r.Hops[0]
	if first.Kind == analytics.KindRequest && first.Outcome == analytics.OutcomeCompleted && r.allCompleted() {
		return
	}
	for i := range r.Hops {
		h := &r.Hops[i]
		switch {
		case h.Kind == "" || h.Outcome == analytics.OutcomeCompleted:
		case h.Outcome == "":
			out.paragraph(h.Node+": ", "has not ended: the request still runs, or the process was killed and its next start ends it as crashed")
		default:
			out.paragraph(h.Node+": ", painted(string(h.ending(out))+printable(h.why())))
		}
	}
	if first.Outcome == analytics.OutcomeRefused && r.Pool != "" {
		out.paragraph("", out.paint(text.Faint, "colonnade status -pool "+r.Pool+" shows who holds its slots and who waits now"))
	}
}

func (r *followedRequest) allCompleted() bool {
	return !slices.ContainsFunc(r.Hops, func(h hopView) bool { return h.Kind != "" && h.Outcome != analytics.OutcomeCompleted })
}

var (
	markdownLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	markdownCode = strings.NewReplacer("`", "")
)

// why returns the reason of an end with its meaning.
func (h *hopView) why() string {
	reason := cmp.Or(h.Reason, h.Code)
	if h.Outcome == analytics.OutcomeCrashed && reason == "" {
		return ": the process was killed while the request ran"
	}
	if reason == "" {
		return ""
	}
	for _, known := range reasons.All() {
		if known.Reason == reason {
			return " (" + reason + "): " + markdownCode.Replace(markdownLink.ReplaceAllString(known.Meaning, "$1"))
		}
	}
	return " (" + reason + ")"
}
