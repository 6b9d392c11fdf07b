package query

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"colonnade/analytics/journal"
)

// MinPrefix is the least number of characters by which a request may be named instead of by its whole id.
const MinPrefix = 8

// Filter selects events; an empty field accepts every event.
type Filter struct {
	Account, Key, Model, Node string
	Kind, Outcome             string
	Request                   string    // id of the request: its own, the first MinPrefix characters of that or more, or the client's
	Since, Until              time.Time // of the event; Until itself is excluded
	Begins                    bool      // begins too; else final events only
}

// Matcher returns a function that reports whether the filter selects an event, by its JSON as the journal writes it. The function may be called
// by several goroutines at once.
func (f *Filter) Matcher() func(event []byte) bool {
	var all [][]byte // of which each must be there
	field := func(name, value string) {
		if value != "" {
			all = append(all, needle(name, value))
		}
	}
	field("account", f.Account)
	field("key", f.Key)
	field("model", f.Model)
	field("node", f.Node)
	field("kind", f.Kind)
	field("outcome", f.Outcome)
	if !f.Begins {
		field("phase", "end")
	}
	oneOf := f.requestNeedles()
	since, until := f.Since, f.Until
	return func(event []byte) bool {
		for _, n := range all {
			if !bytes.Contains(event, n) {
				return false
			}
		}
		return containsAny(event, oneOf) && inTime(event, since, until)
	}
}

// requestNeedles returns what stands in the events of the request; nil for all requests.
func (f *Filter) requestNeedles() [][]byte {
	if f.Request == "" {
		return nil
	}
	oneOf := [][]byte{needle("request_id", f.Request), needle("client_request_id", f.Request)}
	if isPrefix(f.Request) {
		own := needle("request_id", f.Request)
		oneOf = append(oneOf, own[:len(own)-1])
	}
	return oneOf
}

// isPrefix reports whether a text may be the beginning of a request's own id.
func isPrefix(text string) bool {
	return len(text) >= MinPrefix && strings.Trim(text, "0123456789abcdef") == ""
}

// needle returns a field as the journal writes it.
func needle(name, value string) []byte {
	quoted, _ := json.Marshal(value) // cannot fail: invalid UTF-8 is replaced, as in events
	return append([]byte(`"`+name+`":`), quoted...)
}

func containsAny(event []byte, oneOf [][]byte) bool {
	for _, n := range oneOf {
		if bytes.Contains(event, n) {
			return true
		}
	}
	return oneOf == nil
}

func inTime(event []byte, since, until time.Time) bool {
	if since.IsZero() && until.IsZero() {
		return true
	}
	t := journal.TimeOf(event)
	return !t.Before(since) && (until.IsZero() || t.Before(until))
}
