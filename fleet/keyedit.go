package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.yaml.in/yaml/v2"
)

// Why the keys of an account's document cannot be changed.
var (
	ErrKeyTaken   = errors.New("another key of this account has this id")
	ErrKeyUnknown = errors.New("the account has no key of this id")
)

// AddKey returns an account's document with one more key. Its text stays as it is otherwise: comments, order, layout,
// YAML or JSON. An empty text is that of an account that has no document yet. The error is ErrKeyTaken, or an
// *InvalidError if the text is no good document.
func AddKey(account string, text []byte, key Key) ([]byte, error) {
	if len(text) == 0 {
		return []byte("keys:\n  - " + key.yamlFlow() + "\n"), nil
	}
	e, err := newKeyEdit(account, text)
	if err != nil {
		return nil, err
	}
	if e.index(key.ID) >= 0 {
		return nil, ErrKeyTaken
	}
	tree, ferr := parseTree([]byte(key.yamlFlow()))
	if ferr != nil {
		return nil, ferr.invalid(e.key, 0)
	}
	e.want(append(slices.Clone(e.keys), any(tree)))
	e.comments = comments(text)
	return e.first(func(t *keyText) []byte { return t.add(key) }, func(t *keyText) []byte { return t.addNode(key) })
}

// RemoveKey returns an account's document without the key of this id, and without the comments in it, right above it
// and behind it. Its text stays as it is otherwise. The error is ErrKeyUnknown, or an *InvalidError if the text is no
// good document.
func RemoveKey(account string, text []byte, id string) ([]byte, error) {
	if len(text) == 0 {
		return nil, ErrKeyUnknown
	}
	e, err := newKeyEdit(account, text)
	if err != nil {
		return nil, err
	}
	i := e.index(id)
	if i < 0 {
		return nil, ErrKeyUnknown
	}
	e.want(slices.Delete(slices.Clone(e.keys), i, i+1))
	e.comments = e.commentsWithout(i)
	return e.first(func(t *keyText) []byte { return t.remove(i) }, func(t *keyText) []byte { return t.removeOwn(i) },
		func(t *keyText) []byte { return t.removeNode(i) })
}

// keyEdit is a change of the keys in an account's document. A change of a text by its look may go wrong in a language
// such as YAML, so several ways are tried, the one that keeps the most first, and what comes out is read again.
type keyEdit struct {
	key      string // of the document
	text     []byte
	keys     []any          // as they are
	wanted   map[string]any // the whole document
	comments []comment      // wanted; none in JSON
}

func newKeyEdit(account string, text []byte) (*keyEdit, error) {
	key := documentKey(KindAccount, account)
	if err := Check(key, text); err != nil {
		return nil, err
	}
	tree, _ := parseTree(text) // it is good: see above
	keys, _ := tree["keys"].([]any)
	return &keyEdit{key: key, text: text, keys: keys, wanted: maps.Clone(tree)}, nil
}

func (e *keyEdit) want(keys []any) { e.wanted["keys"] = keys }

func (e *keyEdit) index(id string) int {
	return slices.IndexFunc(e.keys, func(key any) bool {
		fields, _ := key.(map[string]any)
		return fields["id"] == id
	})
}

// commentsWithout returns the comments that are to be there when a key has gone: all but its own.
func (e *keyEdit) commentsWithout(i int) []comment {
	from, to := 0, 0
	_ = e.try(func(t *keyText) []byte {
		from, to = t.own(i)
		return nil
	})
	return slices.DeleteFunc(comments(e.text), func(c comment) bool { return from <= c.from && c.from < to })
}

// first returns what the first way gives that says what is wanted, with the comments that are wanted.
func (e *keyEdit) first(ways ...func(*keyText) []byte) ([]byte, error) {
	for _, way := range ways {
		if out := e.try(way); out != nil && e.right(out) == nil && sameComments(comments(out), e.comments) {
			return out, nil
		}
	}
	out := e.anew()
	if err := e.right(out); err != nil {
		return nil, err
	}
	return out, nil
}

func (e *keyEdit) try(way func(*keyText) []byte) (out []byte) {
	defer func() {
		if r := recover(); r != nil { // a text that the library, or we, cannot take apart: the next way
			out = nil
		}
	}()
	t := readKeyText(e.text)
	if t == nil {
		return nil
	}
	return way(t)
}

func (e *keyEdit) right(out []byte) error {
	tree, err := parseTree(out)
	if err != nil {
		return err.invalid(e.key, 0)
	}
	if _, there := tree["keys"]; !there {
		tree["keys"] = []any{}
	}
	if !sameTree(tree, e.wanted) {
		return &InvalidError{Key: e.key, Reason: "the document cannot be edited; put it anew by hand"}
	}
	return nil
}

// anew writes the document from what it says, below its comments.
func (e *keyEdit) anew() []byte {
	if json.Valid(e.text) {
		out, _ := json.MarshalIndent(e.wanted, "", "  ")
		return out
	}
	raw, _ := parseYAML(e.text)
	fields, _ := raw.(yaml.MapSlice)
	fields = slices.DeleteFunc(fields, func(f yaml.MapItem) bool { return f.Key == "keys" })
	fields = append(fields, yaml.MapItem{Key: "keys", Value: e.wanted["keys"]})
	out, err := yaml.Marshal(fields)
	if err != nil {
		return nil
	}
	var text []byte
	for _, c := range e.comments {
		text = append(append(text, c.text...), '\n')
	}
	return append(text, out...)
}

// fields returns how a key is written in documents: names and quoted texts. What YAML might take for a number or a word
// of its own is none of our concern then.
func (k Key) fields() [][2]string {
	out := [][2]string{{"id", k.ID}, {"sha256", fmt.Sprintf("%x", k.SHA256)}}
	if !k.Created.IsZero() {
		out = append(out, [2]string{"created", k.Created.UTC().Format(time.RFC3339Nano)})
	}
	if !k.Expires.IsZero() {
		out = append(out, [2]string{"expires", k.Expires.UTC().Format(time.RFC3339Nano)})
	}
	for i := range out {
		quoted, _ := json.Marshal(out[i][1])
		out[i][1] = string(quoted)
	}
	return out
}
