package problems

import (
	"fmt"
	"slices"
	"strings"

	"colonnade/reasons"
)

// Severity says how bad a problem is.
type Severity string

// The severities. A warning may be intended; the readiness of a node and the exit codes of commands ignore it.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Problem is one thing that is wrong in a fleet, or that may be.
type Problem struct {
	Kind     string   `json:"kind"` // one of package reasons
	Severity Severity `json:"severity"`
	Subject  string   `json:"document,omitempty"` // key of the document or node that it is about
	Text     string   `json:"text"`
	Effect   string   `json:"effect,omitempty"` // on clients
	Action   string   `json:"action,omitempty"` // for an operator
}

// List collects problems. It is not safe for concurrent use.
type List struct{ all []Problem }

// Errorf adds a problem of severity error, with the effect and the action of its kind.
func (l *List) Errorf(kind, subject, format string, args ...any) *Problem {
	return l.add(kind, SeverityError, subject, fmt.Sprintf(format, args...))
}

// Warnf adds a problem of severity warning, with the effect and the action of its kind.
func (l *List) Warnf(kind, subject, format string, args ...any) *Problem {
	return l.add(kind, SeverityWarning, subject, fmt.Sprintf(format, args...))
}

// add returns the problem, whose effect and action the caller may say more closely until the next one is added.
func (l *List) add(kind string, severity Severity, subject, text string) *Problem {
	known := reasons.ProblemOf(kind)
	l.all = append(l.all, Problem{Kind: kind, Severity: severity, Subject: subject, Text: text, Effect: known.Effect, Action: known.Action})
	return &l.all[len(l.all)-1]
}

// Add adds problems that were found elsewhere, but for those that the list has already.
func (l *List) Add(more ...Problem) {
	for _, p := range more {
		if !slices.Contains(l.all, p) {
			l.all = append(l.all, p)
		}
	}
}

// All returns the problems, errors first, and otherwise in the order in which they were added; never nil.
func (l *List) All() []Problem {
	all := append([]Problem{}, l.all...)
	slices.SortStableFunc(all, func(a, b Problem) int { return strings.Compare(string(a.Severity), string(b.Severity)) })
	return all
}
