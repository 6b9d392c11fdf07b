package homes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Process is one process of a colo server. Boot is its boot id, which differs at each start.
type Process struct{ Node, Boot string }

// String returns node/boot.
func (p Process) String() string { return p.Node + "/" + p.Boot }

// Record states the engines that a process owns or wants to own, and how many requests it has on others. The store has it under two keys,
// which the transaction that registers the process puts first.
type Record struct {
	Process
	Revision int64  // of the store at which either key was put last; 0 = not put
	Put      uint64 // counts the puts of the process
	Address  string // host:port of the peer listener
	// Owns has the engines, by URL, that the process owns or wants to own, each with the limit that was found for it; 0 = that of its
	// document.
	Owns map[string]int
	// Held is how many requests the process has on engines that it does not own, by URL.
	Held map[string]int
	// Problem says why the record cannot be read as a whole; empty if it can. The part that can be read counts.
	Problem string
}

// RecordVersion is the newest version of records that this version of the software reads as a whole.
const RecordVersion = 1

// maxRecordSize bounds each of the two values of a record, in bytes.
const maxRecordSize = 1 << 20

// recordJSON is the value of a record's first key in the store: all but Held.
type recordJSON struct {
	Version int            `json:"version"`
	Put     uint64         `json:"put"`
	Address string         `json:"address"`
	Owns    map[string]int `json:"owns"`
}

// Encode returns the values of the record's two keys: one with Owns, and one with Held.
func (r *Record) Encode() (owns, held []byte) {
	return encode(recordJSON{RecordVersion, r.Put, r.Address, notNil(r.Owns)}), encode(notNil(r.Held))
}

func notNil(m map[string]int) map[string]int {
	if m == nil {
		return map[string]int{}
	}
	return m
}

func encode(value any) []byte {
	b, err := json.Marshal(value)
	if err != nil {
		panic("homes: " + err.Error()) // strings and numbers
	}
	return b
}

// ParseRecord parses the values of a record's two keys; nil = there is no such key. A value that is missing, not well formed, of another
// version or too large sets Problem; what can be read of it counts, since it blocks engines.
func ParseRecord(p Process, owns, held []byte) Record {
	r := Record{Process: p}
	var problems []string
	note := func(key string, value []byte, err error) {
		if err == nil && len(value) > maxRecordSize {
			err = fmt.Errorf("has %d bytes, more than %d", len(value), maxRecordSize)
		}
		if err != nil {
			problems = append(problems, key+": "+err.Error())
		}
	}
	if owns != nil {
		var body recordJSON
		err := decode(owns, &body)
		if err == nil && (body.Version < 1 || body.Version > RecordVersion) {
			err = fmt.Errorf("version %d is not one of 1 to %d", body.Version, RecordVersion)
		}
		if err != nil && body.Owns == nil {
			body.Owns = salvage(owns)
		}
		r.Put, r.Address, r.Owns = body.Put, body.Address, body.Owns
		note("owns", owns, err)
	} else {
		problems = append(problems, "owns: the key is missing")
	}
	if held != nil {
		err := decode(held, &r.Held)
		if err != nil {
			r.Held = salvage(held)
		}
		note("held", held, err)
	} else {
		problems = append(problems, "held: the key is missing")
	}
	for url, n := range r.Held {
		if n <= 0 {
			delete(r.Held, url)
		}
	}
	r.Problem = strings.Join(problems, "; ")
	return r
}

// decode is strict: fields of a newer version may mean that more is owned.
func decode(value []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("is not valid: %w", err)
	}
	if d.More() {
		return fmt.Errorf("is not valid: data follows the value")
	}
	return nil
}

// salvage returns every string of a damaged value that looks like the URL of an engine, each with the number that follows it.
func salvage(value []byte) map[string]int {
	found := map[string]int{}
	d := json.NewDecoder(bytes.NewReader(value))
	last := ""
	for {
		token, err := d.Token()
		if err != nil {
			return found
		}
		switch t := token.(type) {
		case string:
			if last = ""; strings.HasPrefix(t, "http://") || strings.HasPrefix(t, "https://") {
				last = t
				found[t] = 0
			}
		case float64:
			if last != "" && t > 0 && t < 1<<30 {
				found[last] = int(t)
			}
			last = ""
		}
	}
}

// Change is a change of the records of a colo at one revision of the store. Changes come in the order of the store.
type Change struct {
	Revision int64
	Listed   bool // Put has all records of the colo
	Restored bool // the store was restored to an older revision, or may have been
	Put      []Record
	Deleted  []Process
}

// Answer is the answer of a process to a question of another server of its colo.
type Answer struct {
	Boot     string         `json:"boot"`
	Ended    []string       `json:"ended,omitempty"`  // boot ids of earlier processes of the node that have certainly ended
	MayGrant bool           `json:"may_grant"`        // its registration is confirmed; else it grants nothing before it registers again
	Grants   []string       `json:"grants,omitempty"` // engines, by URL, on which it may grant now
	Held     map[string]int `json:"held,omitempty"`   // requests that it has on engines, by URL
	Reaches  bool           `json:"reaches"`          // whether it reaches the store
	Drains   bool           `json:"drains,omitempty"` // requests that would have to wait there are refused
}

// Grants says where a server may grant. It is not modified after it was made.
type Grants struct {
	// Engines are those on which the server may grant, by URL; on all others it may not.
	Engines map[string]Share
	// Homes has the node that is the home, for each pool whose home is another server.
	Homes map[string]string
}

// Share is what a server may grant on one engine.
type Share struct {
	Taken int // slots that requests of other servers have
	Limit int // limit that its last owner found; 0 = none
}
