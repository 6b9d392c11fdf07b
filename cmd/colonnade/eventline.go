package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"colonnade/analytics"
)

// eventLines writes events as lines in columns. These become wider as they must, and never narrower.
type eventLines struct {
	width eventWidths
	day   string // of the last line
}

// eventWidths are those of the columns node, account, model, place and result.
type eventWidths [5]int

// widest is what no column exceeds; what is longer sticks out.
func widest() eventWidths { return eventWidths{16, 16, 24, 20, 3} }

// fit widens the columns for the events to come.
func (l *eventLines) fit(events []analytics.Event) {
	for i := range events {
		for j, text := range eventColumns(&events[i]) {
			l.width[j] = max(l.width[j], min(utf8.RuneCountInString(text), widest()[j]))
		}
	}
}

func (l *eventLines) append(to []byte, e *analytics.Event) []byte {
	at := e.Time.Local()
	if l.day == "" {
		l.day = time.Now().Format(time.DateOnly)
	}
	if day := at.Format(time.DateOnly); day != l.day {
		l.day = day
		to = fmt.Appendf(to, "--- %s\n", day)
	}
	var line strings.Builder
	line.WriteString(at.Format("15:04:05.000"))
	for i, text := range eventColumns(e) {
		fmt.Fprintf(&line, " %-*s", l.width[i], text)
	}
	for _, text := range eventFigures(e) {
		line.WriteString(" " + text)
	}
	return append(append(to, strings.TrimRight(line.String(), " ")...), '\n')
}

func eventColumns(e *analytics.Event) [len(eventWidths{})]string {
	place := shown(e.ColoID)
	if e.Endpoint != "" {
		place += "/" + shown(e.Endpoint)
	}
	return [...]string{orDash(shown(e.Node)), orDash(shown(e.Account)), orDash(shown(e.Model)), orDash(place), eventResult(e)}
}

func orDash(s string) string { return cmp.Or(s, "-") }

// eventResult is the status alone where all went well, and else how it ended and why.
func eventResult(e *analytics.Event) string {
	if e.Phase == analytics.PhaseBegin {
		return "begin"
	}
	result := "-"
	if e.Status != 0 {
		result = fmt.Sprint(e.Status)
	}
	if e.Outcome != analytics.OutcomeCompleted {
		result += " " + shown(string(e.Outcome))
		if why := cmp.Or(e.Reason, e.Code); why != "" && why != string(e.Outcome) {
			result += " (" + shown(why) + ")"
		}
	}
	return result
}

func eventFigures(e *analytics.Event) []string {
	var out []string
	add := func(there bool, format string, values ...any) {
		if there {
			out = append(out, fmt.Sprintf(format, values...))
		}
	}
	add(e.RequestTime > 0, "%s", brief(e.RequestTime.Std()))
	add(e.QueuingTime > 0, "queued %s", brief(e.QueuingTime.Std()))
	add(e.TimeToFirstToken > 0, "ttft %s", brief(e.TimeToFirstToken.Std()))
	add(e.PromptTokens+e.CompletionTokens > 0, "tokens %d+%d", e.PromptTokens, e.CompletionTokens)
	add(e.PromptTokens+e.CompletionTokens == 0 && e.TokensEstimated > 0, "tokens ~%d", e.TokensEstimated)
	add(e.AudioSeconds > 0, "audio %.6gs", e.AudioSeconds)
	add(e.Cost > 0, "cost %.4g %s", e.Cost, shown(e.CostUnit))
	add(e.Attempts > 1, "attempts %d", e.Attempts)
	return out
}
