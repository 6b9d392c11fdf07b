package fleet_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"colonnade/fleet"
)

// FuzzKeyEdit: whatever a good document looks like, adding a key and removing one changes its keys and nothing else, and loses no
// comment but the key's own.
func FuzzKeyEdit(f *testing.F) {
	for _, seed := range []string{
		"weight: 2\n", "{}", `{"weight":2,"keys":[]}`, "keys: [{id: a, sha256: 'H1'}]\nmodels: [x]\n", "# a\nkeys:\n  # b\n- id: a\n  sha256: H1 # c\n- {id: b, sha256: \"H2\"}\n...\n",
		"version: 2\nnew: {'it''s': [\"}\"]}\n'keys': [ # c\n {id: a, sha256: 'H1'}, # d\n {sha256: 'H2', id: \"\\x62\"} ]\n",
		"{\n\t\"keys\": [\n\t\t{\n\t\t\t\"id\": \"a\",\n\t\t\t\"sha256\": \"H1\"\n\t\t}\n\t]\n}", "? keys\n: - {id: a, sha256: 'H1'}\n", "--- {keys: [{id: a, sha256: >-\n  H1\n}]}",
		"weight: 2 # é\n\"k\\u0065ys\": [{id: a, sha256: 'H1'}, ]\n", "keys:\n  - \n   id: a\n   sha256: 'H1'\n   expires: 2026-01-31T12:00:00Z\n",
		"# 1\nkeys: [ # 2\n  # 3\n  {id: a, sha256: 'H1'}, # 4\n  # 5\n  {id: b, sha256: 'H2'}] # 6\n# 7\n", "keys: [{id: a, # 1\n sha256: H1}, # 2\n{id: b, sha256: H2}, {id: c, sha256: H3}, # 3\n]",
		"# 1\n\nkeys:\n- # 2\n  id: a\n  sha256: >- # 3\n    H1\n  # 4\n\n# 5\n- id: b # 6\n  sha256: H2\n# 7\nmodels: ['x#y', # 8\n  ]\n\n# 9\n",
	} {
		f.Add([]byte(long(seed)), "k1")
	}
	f.Fuzz(func(t *testing.T, text []byte, id string) {
		before, err := account(text)
		if err != nil || fleet.CheckKey("accounts/"+id) != nil {
			return
		}
		key := fleet.Key{ID: id, SHA256: hash(7), Created: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)}
		added, err := fleet.AddKey("a", text, key)
		if len(text)+200 > fleet.MaxDocument || len(before.Keys) == fleet.MaxList {
			return
		}
		for _, k := range before.Keys {
			if k.ID == id && !errors.Is(err, fleet.ErrKeyTaken) {
				t.Fatalf("%q: a taken id: %v", text, err)
			}
		}
		if err == nil {
			differs(t, text, added, before, append(before.Keys[:len(before.Keys):len(before.Keys)], key))
			keepsComments(t, text, added, -1)
		} else if !errors.Is(err, fleet.ErrKeyTaken) {
			t.Fatalf("%q: %v", text, err)
		}
		for i, k := range before.Keys {
			removed, err := fleet.RemoveKey("a", text, k.ID)
			if err != nil {
				t.Fatalf("%q without %q: %v", text, k.ID, err)
			}
			differs(t, text, removed, before, append(before.Keys[:i:i], before.Keys[i+1:]...))
			keepsComments(t, text, removed, i)
		}
	})
}

// differs checks that a document says what it said before, but for its keys.
func differs(t *testing.T, from, to []byte, before fleet.Account, keys []fleet.Key) {
	t.Helper()
	after, err := account(to)
	if err != nil {
		t.Fatalf("%q becomes %q: %v", from, to, err)
	}
	if len(after.Keys)+len(keys) > 0 && !reflect.DeepEqual(after.Keys, keys) {
		t.Fatalf("%q becomes %q: its keys are %+v, want %+v", from, to, after.Keys, keys)
	}
	after.Keys, before.Keys = nil, nil
	if !reflect.DeepEqual(after, before) {
		t.Fatalf("%q becomes %q: %+v, want %+v", from, to, after, before)
	}
	if json.Valid(from) != json.Valid(to) {
		t.Fatalf("%q becomes %q", from, to)
	}
}

// keepsComments checks that a document has the comments that it had before, but for those that may be the i-th key's own.
func keepsComments(t *testing.T, from, to []byte, i int) {
	t.Helper()
	if json.Valid(from) || bytes.ContainsAny(bytes.ReplaceAll(from, []byte("\r\n"), nil), "\r\u0085\u2028\u2029") {
		return // lines that are none to this test
	}
	first, last := 0, 0
	if i >= 0 {
		first, last = linesOf(from, i)
	}
	after := commentsOf(to)
	for _, c := range commentsOf(from) {
		if first <= c.line && c.line <= last {
			continue
		}
		k := slices.IndexFunc(after, func(a lineComment) bool { return a.text == c.text })
		if k < 0 {
			t.Fatalf("%q becomes %q, without the comment %q", from, to, c.text)
		}
		after = slices.Delete(after, k, k+1)
	}
}

type lineComment struct {
	line int
	text string
}

// commentsOf finds the comments by what the parser says when one of them is another.
func commentsOf(text []byte) (found []lineComment) {
	var said any
	_ = yaml.Unmarshal(text, &said)
	at := 0
	for number, line := range strings.SplitAfter(string(text), "\n") {
		for i := range len(line) {
			if line[i] != '#' {
				continue
			}
			var now any
			err := yaml.Unmarshal(slices.Concat(text[:at+i+1], []byte("x"), text[at+i+1:]), &now)
			if err == nil && reflect.DeepEqual(said, now) {
				found = append(found, lineComment{number + 1, strings.TrimSpace(line[i:])})
				break
			}
		}
		at += len(line)
	}
	return found
}

// linesOf returns on which lines the i-th key's own comments may be: from those above it (or above its dash) to its end.
func linesOf(text []byte, i int) (first, last int) {
	var doc yaml.Node
	if yaml.Unmarshal(text, &doc) != nil {
		return 0, 0
	}
	var key *yaml.Node
	for k, n := range doc.Content[0].Content {
		if k%2 == 0 && n.Value == "keys" {
			key = doc.Content[0].Content[k+1].Content[i]
		}
	}
	lines := strings.SplitAfter(string(text), "\n")
	for first = key.Line; first > 1; first-- {
		if above := strings.TrimSpace(lines[first-2]); above != "" && above[0] != '#' && above[0] != '-' {
			break
		}
	}
	var end func(*yaml.Node)
	end = func(n *yaml.Node) {
		last = max(last, n.Line)
		for _, c := range n.Content {
			end(c)
		}
	}
	end(key)
	for key.Style&yaml.FlowStyle != 0 && last < len(lines) && !strings.Contains(lines[last-1], "}") {
		last++ // its bracket is further down
	}
	return first, last
}

func account(text []byte) (fleet.Account, error) {
	docs := fleet.NewDocuments()
	if err := docs.Put("accounts/a", text, 1); err != nil {
		return fleet.Account{}, err
	}
	a, _ := docs.Table().Account("a")
	return *a, nil
}
