package colo

import (
	"slices"
	"testing"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/openai"
)

// The list of engine fields in documents is that of package openai, which documents cannot import, and so are the engines.
func TestDocumentsKnowEngineFields(t *testing.T) {
	for _, f := range openai.AllEngineFields() {
		if err := document.Check("models/m", []byte("allow_fields: ["+f.Name+"]")); err != nil {
			t.Error(err)
		}
		for _, engine := range f.Engines {
			if !slices.Contains(fleet.Engines, engine) {
				t.Errorf("%s: there is no engine %q", f.Name, engine)
			}
		}
	}
	for _, none := range []string{"model", "temperature", "loar_path"} {
		if err := document.Check("models/m", []byte("allow_fields: ["+none+"]")); err == nil {
			t.Errorf("a document may list %q", none)
		}
	}
}

func TestCheckEngineFields(t *testing.T) {
	f := func(members string, allowed []string, want string, engines ...string) {
		t.Helper()
		c := &call{model: &fleet.Model{Name: "m", AllowFields: allowed}, body: peeked(t, openai.Chat, members)}
		var endpoints []*fleet.Endpoint
		for _, e := range engines {
			endpoints = append(endpoints, &fleet.Endpoint{Engine: e})
		}
		got := ""
		if r := c.checkEngineFields(endpoints...); r != nil {
			got = r.err.Param
			if r.verdict.Reason != got || !r.verdict.Final || r.err.Number != openai.NumberUnsupportedParameter {
				t.Errorf("%s: %+v, %v", members, r.verdict, r.err)
			}
		}
		if got != want {
			t.Errorf("%s for %q: %q is refused, want %q", members, engines, got, want)
		}
	}
	f(`"lora_path":"a"`, nil, "lora_path", "sglang")
	f(`"lora_path":"a"`, nil, "", "vllm", "llamacpp", "tgi", "tei", "ollama")
	f(`"lora_path":"a"`, nil, "lora_path", "vllm", "sglang")
	f(`"lora_path":"a"`, nil, "lora_path", "openai")
	f(`"lora_path":"a"`, nil, "")
	f(`"lora_path":"a"`, []string{"priority", "lora_path"}, "", "openai")
	f(`"lora_path":"a","priority":1`, []string{"lora_path"}, "priority", "sglang")
	f(`"temperature":1`, nil, "", "openai")
}
