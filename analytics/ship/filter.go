package ship

import (
	"bytes"
	"encoding/json"

	"colonnade/analytics"
)

// Filter chooses events. The zero filter keeps all.
type Filter struct {
	Kinds    []analytics.Kind // empty = all
	Accounts []string         // empty = all
}

// keep reports whether the filter keeps the event with this JSON. It looks for the fields it needs, and decodes nothing.
func (f *Filter) keep(line []byte) bool {
	return (len(f.Kinds) == 0 || oneOf(field(line, `,"kind":`), f.Kinds)) &&
		(len(f.Accounts) == 0 || oneOf(field(line, `,"account":`), f.Accounts))
}

func oneOf[T ~string](value []byte, of []T) bool {
	for _, s := range of {
		if string(value) == string(s) {
			return true
		}
	}
	return false
}

// field returns the string that a field of an event has; nil if the event does not have the field. key is the field's name in quotes, between
// a comma and a colon: within a string, its quotes would be escaped.
func field(line []byte, key string) []byte {
	i := bytes.Index(line, []byte(key))
	if i < 0 {
		return nil
	}
	value := line[i+len(key):]
	if len(value) == 0 || value[0] != '"' {
		return nil
	}
	end := bytes.IndexByte(value[1:], '"') + 1
	if end > 0 && bytes.IndexByte(value[:end], '\\') < 0 {
		return value[1:end]
	}
	var text string
	if json.NewDecoder(bytes.NewReader(value)).Decode(&text) != nil {
		return nil
	}
	return []byte(text)
}

// eventID returns the id of an event, for logs.
func eventID(line []byte) string {
	var e struct {
		EventID string `json:"event_id"`
	}
	_ = json.Unmarshal(line, &e) // empty then
	return e.EventID
}
