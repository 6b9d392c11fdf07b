package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// KeyChange is what becomes of an account's keys when its document takes the place of another one, by their ids.
type KeyChange struct {
	Account              string
	Gone, Added, Changed []string // changed: another hash, or another time at which it ends
}

// None reports whether all keys stay as they are.
func (c KeyChange) None() bool { return len(c.Gone)+len(c.Added)+len(c.Changed) == 0 }

// CarryKeys returns an account's document as it is to be put in the place of an old one (empty: there is none). A
// document without a field keys says nothing of keys, and gets those of the old one; one that has the field means it,
// and stays as it is, with the change that this makes. The error is an *InvalidError.
func CarryKeys(account string, text, old []byte) ([]byte, KeyChange, error) {
	key, change := documentKey(KindAccount, account), KeyChange{Account: account}
	if err := Check(key, text); err != nil {
		return nil, change, err
	}
	tree, _ := parseTree(text) // it is good: see above
	if _, meant := tree["keys"]; meant {
		after, _ := keysIn(text, true)
		before, _ := keysIn(old, true) // where they cannot be read, all are new
		change.compare(before, after)
		return text, change, nil
	}
	keys, ferr := keysIn(old, false)
	if ferr != nil {
		return nil, change, cannotCarry(key, ferr.invalid("", 0))
	}
	if len(keys) == 0 {
		return text, change, nil
	}
	carried, err := addKeys(account, text, keys)
	if err != nil {
		return nil, change, cannotCarry(key, err)
	}
	return carried, change, nil
}

// addKeys adds keys to a document that has none: the first one as ever, and the others behind it in the same style if
// that can be done at once; else one by one, which takes long when they are many.
func addKeys(account string, text []byte, keys []Key) ([]byte, error) {
	out, err := AddKey(account, text, keys[0])
	if err != nil {
		return nil, err
	}
	if all := repeatKey(out, keys); all != nil && Check(documentKey(KindAccount, account), all) == nil && saysKeys(all, out, keys) {
		return all, nil
	}
	for _, k := range keys[1:] {
		if out, err = AddKey(account, out, k); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// repeatKey writes the other keys behind the first one, where that stands in braces. It may be wrong: see saysKeys.
func repeatKey(text []byte, keys []Key) []byte {
	at := bytes.Index(text, fmt.Appendf(nil, "%x", keys[0].SHA256))
	if at < 0 {
		return nil
	}
	from, length := bytes.LastIndexByte(text[:at], '{'), bytes.IndexByte(text[at:], '}')
	if from < 0 || length < 0 {
		return nil
	}
	to := at + length + 1
	line := bytes.LastIndexByte(text[:from], '\n') + 1
	between, quote, colon, comma := ", ", "", ": ", ", "
	if dash := text[line:from]; string(bytes.TrimSpace(dash)) == "-" {
		between = "\n" + string(dash)
		if bytes.HasSuffix(text[:line], []byte("\r\n")) {
			between = "\r" + between
		}
	}
	if text[from+1] == '"' {
		quote = `"`
	}
	if !bytes.Contains(text[from:to], []byte(": ")) {
		between, colon, comma = ",", ":", ","
	}
	out := bytes.Clone(text[:to])
	for _, k := range keys[1:] {
		out = append(out, between+k.flow(quote, colon, comma)...)
	}
	return append(out, text[to:]...)
}

// saysKeys reports whether a document says the same as one with the first of the keys, and all of them.
func saysKeys(text, withFirst []byte, keys []Key) bool {
	said, err := parseTree(text)
	if err != nil {
		return false
	}
	want, err := parseTree(withFirst)
	if err != nil {
		return false
	}
	var all []any
	for _, k := range keys {
		tree, err := parseTree([]byte(k.yamlFlow()))
		if err != nil {
			return false
		}
		all = append(all, tree)
	}
	want["keys"] = all
	return sameTree(said, want)
}

func cannotCarry(key string, err error) error {
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		err = errors.New((&InvalidError{Field: invalid.Field, Reason: invalid.Reason}).Error())
	}
	return &InvalidError{Key: key, Reason: "the API keys that the account has cannot be kept (" + err.Error() +
		"); write into the file which are meant: its field keys, or keys: [] for none"}
}

// keysIn reads the keys in an account's document, whatever else is wrong with it.
func keysIn(text []byte, lenient bool) ([]Key, *fieldError) {
	if len(text) == 0 {
		return nil, nil
	}
	tree, err := parseTree(text)
	if err != nil {
		return nil, err
	}
	list, there := tree["keys"]
	if !there {
		return nil, nil
	}
	var a struct {
		Keys []Key `json:"keys" secret:"yes"`
	}
	err = decoder{lenient: lenient}.decode(map[string]any{"keys": list}, &a)
	return a.Keys, err
}

func (c *KeyChange) compare(before, after []Key) {
	find := func(keys []Key, id string) int { return slices.IndexFunc(keys, func(k Key) bool { return k.ID == id }) }
	for _, k := range before {
		if find(after, k.ID) < 0 {
			c.Gone = append(c.Gone, k.ID)
		}
	}
	for _, k := range after {
		switch i := find(before, k.ID); {
		case i < 0:
			c.Added = append(c.Added, k.ID)
		case before[i].SHA256 != k.SHA256 || !before[i].Expires.Equal(k.Expires):
			c.Changed = append(c.Changed, k.ID)
		}
	}
}
