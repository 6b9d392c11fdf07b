package messages

import (
	"strconv"

	"colonnade/openai"
)

// place is where a value stands in a request, for errors.
type place struct {
	parent *place
	name   string // of a member; empty for an element
	index  int    // of an element
}

func (p *place) member(name string) place { return place{parent: p, name: name} }

func (p *place) element(i int) place { return place{parent: p, index: i} }

// String returns the place as Anthropic writes it, such as messages.0.content.1.source.
func (p *place) String() string {
	if p.parent == nil {
		return "" // the request itself
	}
	name := p.name
	if name == "" {
		name = strconv.Itoa(p.index)
	}
	if above := p.parent.String(); above != "" {
		return above + "." + name
	}
	return name
}

// invalid returns the error for a value that the Messages API does not allow.
func (p *place) invalid(format string, args ...any) *openai.Error {
	where := p.String()
	e := openai.InvalidRequest(where, format, args...)
	if where != "" {
		e.Message = where + ": " + e.Message
	}
	return e
}

// refused returns the error for a value that cannot be translated.
func (p *place) refused(why string) *openai.Error { return openai.NotTranslated(p.String(), why) }

// object is an object of a request: the raw values of its fields. Null is as if the field were absent.
type object struct {
	kind   *Object
	at     *place
	values [maxFields][]byte
}

// read passes an object.
func (o *object) read(kind *Object, at *place, raw []byte) *openai.Error {
	o.kind, o.at = kind, at
	if len(raw) == 0 || raw[0] != '{' {
		return at.invalid("must be an object")
	}
	j := openai.NewJSON(raw, true)
	for key, ok := j.FirstMember(); ok; key, ok = j.NextMember() {
		i := kind.index(key)
		if i < 0 {
			return o.unknown(string(key))
		}
		value := j.Value()
		if string(value) == "null" {
			continue
		}
		f := &kind.Fields[i]
		here := at.member(f.Name)
		switch {
		case o.values[i] != nil:
			return here.invalid("the field occurs twice")
		case f.Does == Refused && !isEmpty(value):
			return here.refused(f.Note)
		}
		o.values[i] = value
	}
	if !j.End() {
		return at.invalid("is not valid JSON")
	}
	return nil
}

func (k *Object) index(key []byte) int {
	for i := range k.Fields {
		if k.Fields[i].Name == string(key) {
			return i
		}
	}
	return -1
}

func (o *object) unknown(key string) *openai.Error {
	here := o.at.member(openai.Cut(key))
	return here.refused("the field is not known")
}

// isEmpty reports whether a value asks for nothing.
func isEmpty(raw []byte) bool {
	switch string(raw) {
	case "false", "[]", "{}", `""`:
		return true
	}
	return false
}

// get returns the raw value of a field, or nil.
func (o *object) get(name string) []byte { return o.values[o.kind.mustIndex(name)] }

func (k *Object) mustIndex(name string) int {
	for i := range k.Fields {
		if k.Fields[i].Name == name {
			return i
		}
	}
	panic("messages: " + k.Name + " has no field " + name)
}

// text returns the raw inside of a field that must be a string; nil if the field is absent.
func (o *object) text(name string) ([]byte, *openai.Error) {
	raw := o.get(name)
	if raw == nil {
		return nil, nil
	}
	inside, ok := openai.Unquoted(raw)
	if !ok {
		here := o.at.member(name)
		return nil, here.invalid("must be a string")
	}
	return inside, nil
}

// required is text of a field that must be there and must not be empty.
func (o *object) required(name string) ([]byte, *openai.Error) {
	inside, err := o.text(name)
	if err == nil && len(inside) == 0 {
		here := o.at.member(name)
		return nil, here.invalid("is required")
	}
	return inside, err
}

// word returns the text of a field, unescaped.
func (o *object) word(name string) (string, *openai.Error) {
	if _, err := o.text(name); err != nil {
		return "", err
	}
	return string(openai.Unescaped(o.get(name))), nil
}

// flag returns a field that must be true or false.
func (o *object) flag(name string) (bool, *openai.Error) {
	switch raw := o.get(name); string(raw) {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	}
	here := o.at.member(name)
	return false, here.invalid("must be true or false")
}

// typeOf returns the member type of an object that is not read yet.
func typeOf(raw []byte) string {
	j := openai.NewJSON(raw, true)
	found := ""
	for key, ok := j.FirstMember(); ok; key, ok = j.NextMember() {
		is := string(key) == "type"
		if value := j.Value(); is {
			found = string(openai.Unescaped(value))
		}
	}
	return found
}
