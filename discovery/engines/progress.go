package engines

import (
	"fmt"
	"strings"
	"time"
)

// remindAfter is the time after which an engine that is still waited for is reported again.
const remindAfter = 30 * time.Second

// waiting is how long an engine has not answered, and which lines said so.
type waiting struct {
	since    time.Time // zero = it has answered
	reported time.Time
	last     string // the error that was reported
}

// failed returns the line about a question to t without an answer that can be used, or "" while the last line is true and not old.
func (w *waiting) failed(now time.Time, t *target, err error) string {
	if w.since.IsZero() {
		w.since = now
	}
	text := strings.TrimPrefix(err.Error(), t.url+": ")
	if text == w.last && now.Sub(w.reported) < remindAfter {
		return ""
	}
	again := text == w.last // which is shown again, since it is old
	w.last, w.reported = text, now
	line := "waiting for " + t.url
	if t.answer != nil {
		line = "documents of " + t.url + " stay in force, but it does not answer as an engine"
	}
	if again {
		line += fmt.Sprintf(", for %v now", now.Sub(w.since).Round(time.Second))
	}
	return line + ": " + text
}

// answered returns the line about an engine that answers again, or "".
func (w *waiting) answered(url string, known bool) string {
	line := ""
	if known && !w.since.IsZero() {
		line = url + " answers again"
	}
	*w = waiting{}
	return line
}

// Lines returns what was found and what was assumed, for the operator.
func (e *Engine) Lines() []string {
	value, _ := concurrency(e)
	if value == "" {
		value = "the default for " + e.Kind
	}
	lines := []string{fmt.Sprintf("found %s: %s, %s, concurrency %s", e.URL, e, modelsLine(e), value)}
	for _, note := range e.Notes {
		lines = append(lines, "  "+note)
	}
	for _, m := range e.Models {
		if m.Note != "" {
			lines = append(lines, "  "+m.Name+": "+m.Note)
		}
	}
	return lines
}

// modelsLine lists models with their types, at most three of them.
func modelsLine(e *Engine) string {
	var names []string
	for _, m := range e.Models {
		names = append(names, fmt.Sprintf("%s (%s)", m.Name, m.Type))
	}
	switch len(names) {
	case 0:
		return "no model"
	case 1:
		return "model " + names[0]
	}
	return "models " + strings.TrimSpace(fewOf(names))
}
