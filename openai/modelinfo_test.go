package openai_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"colonnade/openai"
)

// Models have the shape of each API, with what is known of them and nothing else.
func TestModelInfo(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 5, 0, time.FixedZone("", 3600))
	models := []openai.ModelInfo{
		{ID: "a/b \"ü\"", Type: "chat", Created: at, OwnedBy: "colonnade", MaxModelLen: 4096}, {ID: "c", AliasOf: "d", Type: "embedding", Created: at, OwnedBy: "colonnade"},
	}
	f := func(got []byte, want string) {
		t.Helper()
		if !json.Valid(got) || string(got) != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
	first := `{"id":"a/b \"ü\"","object":"model","created":1795172405,"owned_by":"colonnade","max_model_len":4096}`
	second := `{"id":"c","object":"model","created":1795172405,"owned_by":"colonnade","alias_of":"d"}`
	f(openai.AppendModel(nil, &models[1], openai.DialectOpenAI), second)
	f(openai.AppendModelList(nil, models, openai.DialectOpenAI), `{"object":"list","data":[`+first+`,`+second+`]}`)
	f(openai.AppendModelList(nil, nil, openai.DialectOpenAI), `{"object":"list","data":[]}`)

	first = `{"type":"model","id":"a/b \"ü\"","display_name":"a/b \"ü\"","created_at":"2026-11-20T11:00:05Z","max_input_tokens":4096}`
	second = `{"type":"model","id":"c","display_name":"c","created_at":"2026-11-20T11:00:05Z"}`
	f(openai.AppendModel(nil, &models[1], openai.DialectAnthropic), second)
	f(openai.AppendModelList(nil, models, openai.DialectAnthropic), `{"data":[`+first+`,`+second+`],"has_more":false,"first_id":"a/b \"ü\"","last_id":"c"}`)
	f(openai.AppendModelList(nil, nil, openai.DialectAnthropic), `{"data":[],"has_more":false,"first_id":null,"last_id":null}`)

	details := func(parent string) string {
		return `"details":{"parent_model":"` + parent + `","format":"","family":"","families":[],"parameter_size":"","quantization_level":""}`
	}
	tag := func(name, digest, parent string) string {
		return `{"name":` + name + `,"model":` + name + `,"modified_at":"2026-11-20T11:00:05Z","size":0,"digest":"` + digest + `",` + details(parent) + `}`
	}
	f(openai.AppendModelList(nil, models, openai.DialectOllama), `{"models":[`+tag(`"a/b \"ü\""`, "6df39958619a618f34adaf96a9b687bd20a12fff9341958906cab2ed2384384f", "")+`,`+
		tag(`"c"`, "18ac3e7343f016890c510e93f935261169d9e3f565436429830faf0934f4f8e4", "d")+`]}`)
	f(openai.AppendShownModel(nil, &models[0]), `{"modelfile":"","parameters":"","template":"",`+details("")+
		`,"model_info":{"general.architecture":"colonnade","general.basename":"a/b \"ü\"","colonnade.context_length":4096},"capabilities":["completion","tools"],"modified_at":"2026-11-20T11:00:05Z"}`)
	f(openai.AppendShownModel(nil, &models[1]), `{"modelfile":"","parameters":"","template":"",`+details("d")+
		`,"model_info":{"general.architecture":"colonnade","general.basename":"d"},"capabilities":["embedding"],"modified_at":"2026-11-20T11:00:05Z"}`)
}

func TestShownModel(t *testing.T) {
	f := func(body, want, refused string) {
		t.Helper()
		got, err := openai.ShownModel([]byte(body))
		if (err != nil) != (refused != "") || err != nil && !strings.Contains(err.Message, refused) || got != want {
			t.Errorf("%q: %q, %v", body, got, err)
		}
	}
	f(`{"model":"a"}`, "a", "")
	f(`{"name":"a","verbose":true}`, "a", "")
	f(`{"name":"b","model":"\u0061"}`, "a", "")
	f(`{"model":7}`, "", "missing")
	f(`{}`, "", "missing")
	f(``, "", "no JSON")
	f(`[]`, "", "no JSON")
	f(`{"model":"a"`, "", "no JSON")
	f(`{"model":"a"}x`, "", "no JSON")
	f(`{"model":"a\n"}`, "a\n", "control character")
}

func FuzzShownModel(f *testing.F) {
	for _, seed := range []string{`{"model":"a"}`, `{"name":"a","model":"b"}`, `{"model":"\u00e4"}`, `{"model":`, `null`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		name, err := openai.ShownModel([]byte(body))
		var want struct{ Model, Name any }
		if err == nil && json.Unmarshal([]byte(body), &want) != nil {
			t.Fatalf("%q: %q, and it is no JSON object", body, name)
		}
		if err == nil && !strings.Contains(body, "\\") && !strings.Contains(body, name) {
			t.Fatalf("%q: %q is not in it", body, name)
		}
	})
}
