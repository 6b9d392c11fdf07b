package messages

import "colonnade/openai"

// tools translates the tools and the choice between them.
func (t *translation) tools() *openai.Error {
	raw, n := t.top.get("tools"), 0
	if raw != nil {
		at := t.root.member("tools")
		err := elements(raw, &at, func(at *place, raw []byte) *openai.Error {
			opening := ","
			if n++; n == 1 {
				opening = `,"tools":[`
			}
			t.out = append(t.out, opening...)
			return t.tool(at, raw)
		})
		if err != nil {
			return err
		}
		if n > 0 {
			t.out = append(t.out, ']')
		}
	}
	return t.choice(n > 0)
}

func (t *translation) tool(at *place, raw []byte) *openai.Error {
	if kind := typeOf(raw); kind != "" && kind != "custom" {
		here := at.member("type")
		return here.refused("tools of the type " + openai.Cut(kind) + " are Anthropic's own; define the tool with name, description and input_schema")
	}
	var o object
	if err := o.read(&tool, at, raw); err != nil {
		return err
	}
	if _, err := o.required("name"); err != nil {
		return err
	}
	t.out = append(append(t.out, `{"type":"function","function":{"name":`...), o.get("name")...)
	if _, err := o.text("description"); err != nil {
		return err
	}
	if description := o.get("description"); description != nil {
		t.member("description", description)
	}
	schema := o.get("input_schema")
	if len(schema) == 0 || schema[0] != '{' {
		here := at.member("input_schema")
		return here.invalid("must be an object")
	}
	t.member("parameters", schema)
	if err := t.toolFlags(&o); err != nil {
		return err
	}
	t.out = append(t.out, "}}"...)
	return nil
}

func (t *translation) toolFlags(o *object) *openai.Error {
	if deferred, err := o.flag("defer_loading"); err != nil {
		return err
	} else if deferred {
		here := o.at.member("defer_loading")
		return here.refused("engines do not search for tools")
	}
	if _, err := o.flag("strict"); err != nil {
		return err
	}
	if strict := o.get("strict"); strict != nil {
		t.member("strict", strict)
	}
	return nil
}

func (t *translation) choice(hasTools bool) *openai.Error {
	raw := t.top.get("tool_choice")
	if raw == nil {
		return nil
	}
	var o object
	at := t.root.member("tool_choice")
	if err := o.read(&toolChoice, &at, raw); err != nil {
		return err
	}
	single, err := o.flag("disable_parallel_tool_use")
	if err != nil {
		return err
	}
	kind, err := o.word("type")
	if err != nil {
		return err
	}
	if !hasTools { // engines refuse a choice without tools
		if kind == "any" || kind == "tool" {
			return at.invalid("the request has no tools to choose from")
		}
		return nil
	}
	if err := t.chosen(&o, kind); err != nil {
		return err
	}
	if single {
		t.member("parallel_tool_calls", []byte("false"))
	}
	return nil
}

func (t *translation) chosen(o *object, kind string) *openai.Error {
	switch kind {
	case "auto", "none":
		t.member("tool_choice", openai.AppendString(nil, kind))
	case "any":
		t.member("tool_choice", []byte(`"required"`))
	case "tool":
		if _, err := o.required("name"); err != nil {
			return err
		}
		t.out = append(t.out, `,"tool_choice":{"type":"function","function":{"name":`...)
		t.out = append(append(t.out, o.get("name")...), "}}"...)
	default:
		return o.at.invalid("type must be auto, any, tool or none")
	}
	return nil
}
