package homes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Process is one process of a colo server. Its boot id is another one at each start.
type Process struct{ Node, Boot string }

// String returns node/boot.
func (p Process) String() string { return p.Node + "/" + p.Boot }

// Record says on which engines a process may grant, or wants to, and how many requests it has on the others. It stands in the store
// under two keys, which the process puts with its registration.
type Record struct {
	Process
	Revision int64  // of the store at which either key was put last; 0 = not put
	Put      uint64 // number of this put among those of its process
	Address  string // host:port of the peer listener
	// Owns has the engines, by URL, that the process owns or wants to own, each with the limit that was found for it; 0 = that of its
	// document.
	Owns map[string]int
	// Held is how many requests the process has on engines that it does not own, by URL.
	Held map[string]int
	// Problem says why the record cannot be read as a whole; empty if it can. The rest of it counts.
	Problem string
}

// RecordVersion is the newest version of records that this version of the software reads as a whole.
const RecordVersion = 1

// maxRecordSize bounds each of the two values of a record, in bytes.
const maxRecordSize = 1 << 20

// recordJSON is the form of a record in the store, without what it holds.
type recordJSON struct {
	Version int            `json:"version"`
	Put     uint64         `json:"put"`
	Address string         `json:"address"`
	Owns    map[string]int `json:"owns"`
}

// Encode returns the values of the record's two keys: what it owns, and what it holds.
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

// ParseRecord reads the values of a record's two keys; nil = there is none. A value that is not well formed, has fields of another
// version or is too large sets the Problem, and is read as far as it goes: what it owns or holds blocks engines.
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

// Change is what has changed in the records of a colo, as of one revision of the store. Changes come in the order of the store.
type Change struct {
	Revision int64
	Listed   bool // Put has all records there are: a list, not a change
	Restored bool // the store is older than it was, or may be: it was restored
	Put      []Record
	Deleted  []Process
}

// Answer is what a process reports about itself, to the question of another server of its colo.
type Answer struct {
	Boot     string         `json:"boot"`
	Ended    []string       `json:"ended,omitempty"`  // boot ids of earlier processes of the node that have certainly ended
	MayGrant bool           `json:"may_grant"`        // its registration is confirmed; else it grants nothing before it registers again
	Grants   []string       `json:"grants,omitempty"` // engines, by URL, on which it may grant now
	Held     map[string]int `json:"held,omitempty"`   // requests that it has on engines, by URL
	Reaches  bool           `json:"reaches"`          // whether it reaches the store
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
