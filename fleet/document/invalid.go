package document

import (
	"regexp"
	"strconv"
	"strings"

	"colonnade/fleet"
)

// InvalidError says why a document is not accepted. Text that looks like an API key is replaced: see hideKeys.
type InvalidError struct {
	Key      string
	Field    string // dotted path with indexes, such as routing.steps[1].pick; empty = the document as a whole
	Value    string // empty where it may not be shown
	Reason   string // includes what is accepted
	Revision int64  // 0 = unknown
	Line     int    // of the document's text, counted from 1, where the reason has it; 0 = see [FieldLine]
}

// Error returns "key: field: value: reason", without empty parts.
func (e *InvalidError) Error() string {
	var parts []string
	for _, s := range []string{e.Key, e.Field, e.Value, e.Reason} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return hideKeys(strings.Join(parts, ": "))
}

// fieldError is an InvalidError without its document. Its field grows from the inside: see in.
type fieldError struct {
	Field, Value, Reason string
	Line                 int
}

// in returns e for the map one level further out, where the field is called name. A nil error stays nil.
func (e *fieldError) in(name string) *fieldError {
	if e == nil {
		return nil
	}
	out := *e
	switch {
	case e.Field == "":
		out.Field = name
	case strings.HasPrefix(e.Field, "["):
		out.Field = name + e.Field
	default:
		out.Field = name + "." + e.Field
	}
	return &out
}

func (e *fieldError) at(index int) *fieldError {
	return e.in("[" + strconv.Itoa(index) + "]")
}

// invalid returns e as an *InvalidError; nil, without a type, for nil.
func (e *fieldError) invalid(key string, revision int64) error {
	if e == nil {
		return nil
	}
	return &InvalidError{Key: hideKeys(key), Field: hideKeys(e.Field), Value: hideKeys(e.Value), Reason: hideKeys(e.Reason), Revision: revision, Line: e.Line}
}

// rejection returns e as tables show it.
func (e *fieldError) rejection(key string, revision int64, lastGood bool) fleet.Rejection {
	return fleet.Rejection{Key: hideKeys(key), Revision: revision, Field: hideKeys(e.Field), Reason: hideKeys(e.Reason), LastGood: lastGood}
}

// hideKeys replaces what looks like an API key: ours, or one of those that begin with sk. A key that was pasted into the
// wrong place must not reach a log.
func hideKeys(s string) string {
	return keyLike.ReplaceAllString(s, "${1}(looks like an API key)")
}

// keyLike matches what looks like an API key. Other words, such as disk-7, end in sk; what is escaped before a key is
// none of it.
var keyLike = regexp.MustCompile(`(?i)cn_[a-z0-9._:/@+-]*_[a-z0-9._:/@+-]*[a-z0-9]|(^|[^a-z0-9]|\\[a-z]|\\[xu][0-9a-f]+)sk[_-][a-z0-9._:/@+-]*[a-z0-9]`)

const maxShown = 64

// quote returns a text as an error shows it: shortened, and with control characters escaped.
func quote(s string) string {
	if len(s) > maxShown {
		return strconv.Quote(s[:maxShown]) + "…"
	}
	return strconv.Quote(s)
}
