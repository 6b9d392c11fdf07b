package trust_test

import (
	"net/http"
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/onebox"
	"colonnade/openai"
)

// A field by which an engine would choose an adapter, a peer, a rank or a file is refused with its name and reaches no engine, unless
// the model's document allows it; then the body arrives byte by byte.
func TestEngineFieldsAreRefused(t *testing.T) {
	t.Parallel()
	engine, documents := startTape(t)
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, documents+
		"---\nkey: models/adapters\npool: own\nupstream_name: adapters\nallow_fields: [lora_path, file_urls]\n"+
		"---\nkey: endpoints/ams/sglang\nurl: http://"+engine.address+"/sglang\npool: sglang\nengine: sglang\n---\nkey: models/sglang\npool: sglang\n")
	f.WatchShared(8)
	body := func(model, members string) string { return `{"model":"` + model + `","messages":[],` + members + `}` }
	refused := func(field, body string) {
		t.Helper()
		a := f.RawChat(body)
		e := a.APIError(t)
		if a.Status != 400 || e.Code != "unsupported_parameter" || !strings.Contains(e.Message, `"`+field+`"`) || !strings.Contains(e.Message, "allow_fields") {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
		engine.check(t, body)
	}
	passes := func(body string) {
		t.Helper()
		if a := f.RawChat(body); a.Status != 200 {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
		if heard, _ := engine.rewind(); len(heard) != 1 || !strings.HasSuffix(heard[0], body) {
			t.Errorf("the engine got %q, want %s", heard, body)
		}
	}
	for _, field := range openai.AllEngineFields() {
		if field.Name != openai.FileURLs {
			refused(field.Name, body("own", `"`+field.Name+`":{"remote_host":"10.0.0.1"}`))
		}
	}
	refused("lora_path", body("own", `"lora\u005fpath":"x"`))
	refused("chat_template", body("own", `"chat_template_kwargs":{"chat_template":"x"}`))
	refused("file_urls", body("own", `"x":[{"image_url":{"url":"\u0066ile:///etc/passwd"}}]`))
	refused("file_urls", body("own", `"x":[{"image_url":{"url":"/data/photo.png"}}]`))
	refused("priority", body("adapters", `"lora_path":"x","priority":-1`))
	refused("lora_path", body("sglang", `"lora_path":"x"`))
	passes(body("adapters", `"lora_path":"x","y":[{"image_url":"file:///srv/a.png"}]`))
	passes(body("sglang", `"kv_transfer_params":{},"options":{}`)) // SGLang reads neither
	passes(body("own", `"lora_path":null,"chat_template_kwargs":{"enable_thinking":false},"cache_salt":"s","top_k":5`))
	if a := f.RawChat(body("own", `"Priority":1`)); a.Status != 400 {
		t.Errorf("in upper case: %d %s", a.Status, a.Body)
	}
}

// An engine that is put while a request waits, and reads a field that the engines before it do not, does not get the request.
func TestEngineFieldsAreCheckedAgainAfterWaiting(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	engine, _ := startAnsweringTape(t, func(*http.Request) string {
		<-hold
		return plainOK
	})
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}},
		"key: endpoints/ams/other\nurl: http://"+engine.address+"/other\npool: mixed\nengine: vllm\nconcurrency: 1\n---\nkey: models/mixed\npool: mixed\n"+
			"---\nkey: pools/mixed\nqueue: {max_wait: 60s}\n")
	f.WatchShared(8)
	first := f.BeginChat(`{"model":"mixed","messages":[]}`)
	testkit.WaitFor(t, "the slot to be taken", func() bool { return f.Pool("ams", "mixed").Held == 1 })
	if a := f.RawChat(`{"model":"mixed","messages":[],"priority":-1}`, "x-colonnade-queue: wait"); a.Status != 400 { // without a slot
		t.Errorf("a field that vLLM reads: %d %s", a.Status, a.Body)
	}
	waiting := f.BeginChat(`{"model":"mixed","messages":[],"lora_path":"x"}`, "x-colonnade-queue: wait")
	testkit.WaitFor(t, "the request to wait", func() bool { return f.Pool("ams", "mixed").Queued == 1 })
	f.ApplyAndWait("key: endpoints/ams/sglang\nurl: http://"+engine.address+"/sglang\npool: mixed\nengine: sglang\n", func() bool {
		return f.Pool("ams", "mixed").Limit > 1
	})
	if a := waiting.Read(); a.Status != 400 || !strings.Contains(string(a.Body), `lora_path`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	close(hold)
	if a := first.Read(); a.Status != 200 {
		t.Errorf("the first request: %d %s", a.Status, a.Body)
	}
	if heard, _ := engine.rewind(); len(heard) != 1 || strings.Contains(heard[0], "lora_path") {
		t.Errorf("the engine got %q", heard)
	}
	testkit.WaitFor(t, "the permit to be back", func() bool { return f.Pool("ams", "mixed").Held == 0 })
}
