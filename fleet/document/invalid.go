package document

import (
	"regexp"
	"strconv"
	"strings"

	"colonnade/fleet"
)

// InvalidError says why a document is not accepted. In none of its texts is what looks like an API key: see hideKeys.
type InvalidError struct {
	Key      string
	Field    string // dotted path with indexes, such as routing.steps[1].pick; empty = the document as a whole
	Value    string // as far as it may be shown; empty if not
	Reason   string // with what is accepted
	Revision int64  // 0 where it is not known
}

// Error returns "key: field: value: reason", without what is empty.
func (e *InvalidError) Error() string {
	var parts []string
	for _, s := range []string{e.Key, e.Field, e.Value, e.Reason} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return hideKeys(strings.Join(parts, ": "))
}

// fieldError is an InvalidError that does not know its document. Errors grow from the inside: see in.
type fieldError struct {
	Field, Value, Reason string
}

// in returns e as seen from one level further out, where the field is called name.
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

// invalid makes a typed nil an untyped one, too.
func (e *fieldError) invalid(key string, revision int64) error {
	if e == nil {
		return nil
	}
	return &InvalidError{Key: hideKeys(key), Field: hideKeys(e.Field), Value: hideKeys(e.Value), Reason: hideKeys(e.Reason), Revision: revision}
}

// rejection is the same for tables.
func (e *fieldError) rejection(key string, revision int64, lastGood bool) fleet.Rejection {
	return fleet.Rejection{Key: hideKeys(key), Revision: revision, Field: hideKeys(e.Field), Reason: hideKeys(e.Reason), LastGood: lastGood}
}

// hideKeys replaces what looks like an API key: ours, or one of those that begin with sk. Somebody pasted it where it
// does not belong, and logs would remember it.
func hideKeys(s string) string {
	return keyLike.ReplaceAllString(s, "${1}(looks like an API key)")
}

// keyLike matches what looks like an API key. Other words, such as disk-7, end in sk; what is escaped before a key is
// none of it.
var keyLike = regexp.MustCompile(`(?i)cn_[a-z0-9._:/@+-]*_[a-z0-9._:/@+-]*[a-z0-9]|(^|[^a-z0-9]|\\[a-z]|\\[xu][0-9a-f]+)sk[_-][a-z0-9._:/@+-]*[a-z0-9]`)

const maxShown = 64

// quote shows a text in an error: cut, and with everything odd escaped.
func quote(s string) string {
	if len(s) > maxShown {
		return strconv.Quote(s[:maxShown]) + "…"
	}
	return strconv.Quote(s)
}
