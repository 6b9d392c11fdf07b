package messages

import (
	"bytes"

	"colonnade/internal/ascii"
	"colonnade/openai"
)

const (
	user      = "user"
	assistant = "assistant"
	system    = "system"
)

// messages translates the system prompt and the conversation.
func (t *translation) messages() *openai.Error {
	t.out = append(t.out, `,"messages":[`...)
	if err := t.system(); err != nil {
		return err
	}
	at := t.root.member("messages")
	raw := t.top.get("messages")
	if raw == nil {
		return at.invalid("is required")
	}
	if err := elements(raw, &at, t.message); err != nil {
		return err
	}
	t.endTurn()
	switch t.last {
	case "":
		return at.invalid("must not be empty")
	case assistant:
		return at.refused("the last message is the assistant's, which the engine would not continue: end with a message of the user")
	}
	t.out = append(t.out, ']')
	return nil
}

func (t *translation) system() *openai.Error {
	raw := t.top.get("system")
	if raw == nil || isEmpty(raw) {
		return nil
	}
	t.turn.reset(system)
	at := t.root.member("system")
	return t.content(raw, &at)
}

func (t *translation) message(at *place, raw []byte) *openai.Error {
	var o object
	if err := o.read(&message, at, raw); err != nil {
		return err
	}
	role, err := o.word("role")
	if err != nil {
		return err
	}
	if role != user && role != assistant && role != system {
		here := at.member("role")
		return here.invalid("must be user, assistant or system")
	}
	if role != t.turn.role {
		t.endTurn()
		t.turn.reset(role)
	}
	t.last = role
	here := at.member("content")
	content := o.get("content")
	if content == nil {
		return here.invalid("is required")
	}
	return t.content(content, &here)
}

// endTurn appends the messages of the current turn.
func (t *translation) endTurn() {
	if t.turn.role == "" {
		return
	}
	if t.out[len(t.out)-1] != '[' {
		t.out = append(t.out, ',')
	}
	t.out = t.turn.append(t.out)
}

// content translates a string or an array of blocks.
func (t *translation) content(raw []byte, at *place) *openai.Error {
	if text, ok := openai.Unquoted(raw); ok {
		t.turn.addText(text)
		return nil
	}
	if raw[0] != '[' {
		return at.invalid("must be a string or an array")
	}
	return elements(raw, at, t.block)
}

// block translates a block of content.
func (t *translation) block(at *place, raw []byte) *openai.Error {
	if raw[0] != '{' {
		return at.invalid("must be an object")
	}
	kind := typeOf(raw)
	if !allowedIn(t.turn.role, kind) {
		here := at.member("type")
		return here.refused("blocks of the type " + openai.Cut(kind) + " in a message of the role " + t.turn.role)
	}
	var o object
	switch kind {
	case "text":
		return t.text(&o, at, raw)
	case "image":
		return t.image(&o, at, raw)
	case "document":
		return t.document(&o, at, raw)
	case "thinking":
		if err := o.read(&thinkingBlock, at, raw); err != nil {
			return err
		}
		return o.use("thinking", t.turn.think)
	case "redacted_thinking":
		return o.read(&redactedBlock, at, raw)
	case "tool_use":
		return t.toolUse(&o, at, raw)
	}
	return t.toolResult(&o, at, raw)
}

// allowedIn reports whether a block of this type can be translated in a message of a role.
func allowedIn(role, kind string) bool {
	switch kind {
	case "text":
		return true
	case "image", "document", "tool_result":
		return role == user
	case "thinking", "redacted_thinking", "tool_use":
		return role == assistant
	}
	return false
}

// use calls f with the inside of a string, if the field is there.
func (o *object) use(name string, f func([]byte)) *openai.Error {
	inside, err := o.text(name)
	if err == nil && inside != nil {
		f(inside)
	}
	return err
}

func (t *translation) text(o *object, at *place, raw []byte) *openai.Error {
	if err := o.read(&textBlock, at, raw); err != nil {
		return err
	}
	if o.get("text") == nil {
		here := at.member("text")
		return here.invalid("is required")
	}
	return o.use("text", t.turn.addText)
}

func (t *translation) image(o *object, at *place, raw []byte) *openai.Error {
	if err := o.read(&imageBlock, at, raw); err != nil {
		return err
	}
	var source object
	here := at.member("source")
	if err := source.read(&imageSource, &here, o.get("source")); err != nil {
		return err
	}
	kind, err := source.word("type")
	switch {
	case err != nil:
		return err
	case kind == "base64":
		return t.imageData(&source)
	case kind == "url":
		return t.imageURL(&source)
	}
	return here.refused("the type of an image's source must be base64 or url")
}

func (t *translation) imageData(source *object) *openai.Error {
	if _, err := source.required("media_type"); err != nil {
		return err
	}
	media := openai.Unescaped(source.get("media_type"))
	if !bytes.HasPrefix(media, []byte("image/")) || bytes.ContainsFunc(media, notInMediaType) {
		here := source.at.member("media_type")
		return here.invalid("must be the type of an image, such as image/png")
	}
	data, err := source.required("data")
	if err != nil {
		return err
	}
	t.turn.addImage([]byte("data:"), media, []byte(";base64,"), data)
	return nil
}

func notInMediaType(c rune) bool {
	return c >= 0x80 || !ascii.IsAlphanumeric(byte(c)) && c != '/' && c != '-' && c != '+' && c != '.'
}

func (t *translation) imageURL(source *object) *openai.Error {
	inside, err := source.required("url")
	if err != nil {
		return err
	}
	url := openai.Unescaped(source.get("url"))
	if scheme, _, _ := bytes.Cut(url, []byte("://")); !ascii.EqualFold(scheme, "https") && !ascii.EqualFold(scheme, "http") {
		here := source.at.member("url")
		return here.invalid("must begin with https:// or http://")
	}
	t.turn.addImage(inside)
	return nil
}

// enables reports whether a value, which is an object with the member enabled, asks for something.
func enables(raw []byte) bool {
	if raw[0] != '{' {
		return !isEmpty(raw)
	}
	enabled := false
	j := openai.NewJSON(raw, true)
	for key, ok := j.FirstMember(); ok; key, ok = j.NextMember() {
		if string(key) == "enabled" {
			enabled = string(j.Value()) != "false"
		} else {
			j.Skip()
		}
	}
	return enabled
}

// document translates a document of plain text to a text.
func (t *translation) document(o *object, at *place, raw []byte) *openai.Error {
	if err := o.read(&documentBlock, at, raw); err != nil {
		return err
	}
	if citations := o.get("citations"); citations != nil && enables(citations) {
		here := at.member("citations")
		return here.refused(citationsNote)
	}
	here := at.member("source")
	source := o.get("source")
	if kind := typeOf(source); kind != "text" {
		return here.refused("only documents of plain text can be translated: the type of the source must be text")
	}
	var s object
	if err := s.read(&documentSource, &here, source); err != nil {
		return err
	}
	data, err := s.text("data")
	if err != nil {
		return err
	}
	for _, name := range []string{"title", "context"} {
		if err := o.use(name, t.turn.addText); err != nil {
			return err
		}
	}
	t.turn.addText(data)
	return nil
}

func (t *translation) toolUse(o *object, at *place, raw []byte) *openai.Error {
	if err := o.read(&toolUseBlock, at, raw); err != nil {
		return err
	}
	for _, name := range []string{"id", "name"} {
		if _, err := o.required(name); err != nil {
			return err
		}
	}
	input := o.get("input")
	if input == nil {
		input = []byte("{}")
	}
	if input[0] != '{' {
		here := at.member("input")
		return here.invalid("must be an object")
	}
	t.turn.addCall(o.get("id"), o.get("name"), input)
	return nil
}

func (t *translation) toolResult(o *object, at *place, raw []byte) *openai.Error {
	if err := o.read(&toolResultBlock, at, raw); err != nil {
		return err
	}
	if _, err := o.required("tool_use_id"); err != nil {
		return err
	}
	failed, err := o.flag("is_error")
	if err != nil {
		return err
	}
	var text []byte
	if failed {
		text = append(text, "Error: "...)
	}
	here := at.member("content")
	if text, err = t.resultContent(text, &here, o.get("content")); err != nil {
		return err
	}
	t.turn.addResult(o.get("tool_use_id"), text)
	return nil
}

// resultContent appends the text of a tool's result, and adds its images to the turn.
func (t *translation) resultContent(dst []byte, at *place, raw []byte) ([]byte, *openai.Error) {
	if raw == nil {
		return dst, nil
	}
	if inside, ok := openai.Unquoted(raw); ok {
		return append(dst, inside...), nil
	}
	var texts turn
	err := elements(raw, at, func(at *place, raw []byte) *openai.Error {
		var o object
		switch kind := typeOf(raw); kind {
		case "text":
			if err := o.read(&textBlock, at, raw); err != nil {
				return err
			}
			return o.use("text", texts.addText)
		case "image":
			return t.image(&o, at, raw)
		default:
			here := at.member("type")
			return here.refused("blocks of the type " + openai.Cut(kind) + " in the result of a tool")
		}
	})
	return append(dst, texts.text...), err
}
