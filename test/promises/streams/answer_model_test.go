package streams_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// engineName is the model's name in the answers of an engine.
const engineName = "org/Engine-8B"

// namedAnswer is an answer of an engine, in which NAME stands for the model's name.
type namedAnswer struct {
	path, contentType, body string
	request                 string // beside the model
	length                  bool   // it has a Content-Length
}

func namedAnswers() map[string]namedAnswer {
	const events, lines, value = "text/event-stream", "application/x-ndjson", "application/json"
	chunk := `{"id":"c","object":"chat.completion.chunk","model":"NAME","choices":[{"index":0,"delta":{"content":"\"model\":\"other\""}}]}`
	usage := `data: {"model":"NAME","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}` + "\n\n"
	text := strings.Repeat(`\"model\":\"other\" `, 9000)
	vectors := `{"object":"list","data":[` + strings.Repeat(`{"embedding":[0.123456789,1],"model":"other"},`, 4000) + `{}],"model":"NAME","usage":{"prompt_tokens":1}}`
	const stream = `"stream":true,`
	return map[string]namedAnswer{
		"a chat":               {"/v1/chat/completions", value, `{"id":"c","model":"NAME","choices":[{"message":{"content":"other"}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, "", true},
		"a long chat":          {"/v1/chat/completions", value, `{"choices":[{"message":{"content":"` + text + `"}}],"model":"NAME"}`, "", true},
		"a long chat in parts": {"/v1/chat/completions", value, `{"choices":[{"message":{"content":"` + text + `"}}],"model":"NAME"}`, "", false},
		"chunks":               {"/v1/chat/completions", events, "data: " + chunk + "\n\n: x\n\ndata: " + chunk + "\n\ndata: [DONE]\n\n", stream, false},
		"many chunks":          {"/v1/chat/completions", events, strings.Repeat("data: "+chunk+"\r\n\r\n", 300) + "data: [DONE]\r\n\r\n", stream, false},
		"chunks with usage":    {"/v1/chat/completions", events, "data: " + chunk + "\n\n" + usage + "data: [DONE]\n\n", stream + `"stream_options":{"include_usage":true},`, false},
		"a long chunk": {"/v1/chat/completions", events, `data: {"choices":[{"delta":{"content":"` + text + `"}}],"model":"NAME"}` + "\n\ndata: " + chunk + "\n\ndata: [DONE]\n\n",
			stream, false},
		"completions": {"/v1/completions", events, `data: {"choices":[{"text":"x"}],"model":"NAME"}` + "\n\ndata: [DONE]\n\n", stream, false},
		"responses": {"/v1/responses", events, "event: response.created\ndata: " + `{"type":"response.created","response":{"id":"r","output":[],"model":"NAME"}}` +
			"\n\nevent: response.completed\ndata: " + `{"type":"response.completed","response":{"model":"NAME","usage":{"input_tokens":1,"output_tokens":2}}}` + "\n\n", stream, false},
		"a response": {"/v1/responses", value, `{"object":"response","output":[{"model":"other"}],"model":"NAME"}`, "", true},
		"vectors":    {"/v1/embeddings", value, vectors, "", true},
		"a ranking":  {"/v1/rerank", value, `{"model":"NAME","results":[]}`, "", true},
		"lines": {"/api/chat", lines, strings.Repeat(`{"model":"NAME","message":{"role":"assistant","content":"model"},"done":false}`+"\n", 3) +
			`{"model":"NAME","done":true,"eval_count":3}` + "\n", "", false},
		"a last line":    {"/api/generate", lines, `{"model":"NAME","response":"x","done":true,"eval_count":3}` + "\n", "", false},
		"an Ollama chat": {"/api/chat", value, `{"model":"NAME","message":{"role":"assistant","content":"model"},"done":true}`, `"stream":false,`, true},
		"a message":      {"/v1/messages", value, `{"type":"message","content":[{"type":"text","text":"model"}],"model":"NAME","stop_reason":"end_turn"}`, `"max_tokens":5,`, true},
		"events of a message": {"/v1/messages", events, "event: message_start\ndata: " + `{"type":"message_start","message":{"usage":{"input_tokens":1},"model":"NAME"}}` +
			"\n\nevent: content_block_delta\ndata: " + `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\"model\":"}}` +
			"\n\nevent: message_stop\ndata: " + `{"type":"message_stop"}` + "\n\n", `"max_tokens":5,` + stream, false},
		"an error": {"/v1/chat/completions", value, `{"error":{"message":"NAME"},"model":"` + engineName + `"}`, "", true},
		"no name":  {"/v1/chat/completions", value, `{"choices":[]}`, "", true},
	}
}

// With answer_model: requested, each answer has the model's name that the request has, in whole bodies, long ones and in each event. All other
// bytes are those of the engine. The same holds with a colo server of an earlier version, and with one process in place of several.
func TestAnswerModel(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		t.Run("direct="+strconv.FormatBool(direct), func(t *testing.T) { checkAnswerModel(t, direct) })
	}
}

func checkAnswerModel(t *testing.T, direct bool) {
	var now atomic.Pointer[namedAnswer]
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a := now.Load(); r.Method == http.MethodPost {
			writeNamed(w, *a)
		}
	}))
	defer engine.Close()
	long := strings.Repeat("a-long-name-", 10)
	var documents strings.Builder
	for _, kind := range []string{"vllm", "ollama"} { // which have the path /v1/messages, and those of Ollama
		fmt.Fprintf(&documents, "---\nkey: endpoints/ams/%s\nurl: %s/%[1]s\nengine: %[1]s\npool: %[1]s\n", kind, engine.URL)
		fmt.Fprintf(&documents, "---\nkey: models/%s\naliases: [%[1]s-m, %[1]s-%[2]s]\nanswer_model: requested\n---\nkey: models/%[1]s-as-engine\npool: %[1]s\n", kind, long)
	}
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}, Direct: direct}, documents.String()[4:])
	f.WatchShared(4)
	conn := wiretest.Dial(t, f.Entry.Address) // one for all, since a wrong length would spoil the next answer
	for what, a := range namedAnswers() {
		kind := "vllm"
		if strings.HasPrefix(a.path, "/api/") {
			kind = "ollama"
		}
		for _, name := range []string{kind, kind + "-m", kind + "-" + long, kind + "-as-engine"} {
			now.Store(&a)
			conn.Post(a.path, fmt.Sprintf(`{"model":%q,%s"messages":[],"input":"x","prompt":"x","query":"q","documents":["d"]}`, name, a.request))
			r := conn.Read()
			want := name
			if what == "an error" || name == kind+"-as-engine" {
				want = engineName
			}
			if expected := strings.ReplaceAll(a.body, "NAME", want); r.Err != nil || r.Body != expected {
				t.Fatalf("%s of %q: %d %v\n got %.300q of %d bytes\nwant %.300q of %d", what, name, r.Status, r.Err, r.Body, len(r.Body), expected, len(expected))
			}
		}
	}
	a := namedAnswers()["vectors"] // a client of HTTP/1.0 gets a body without a length that ends with the connection
	now.Store(&a)
	old := wiretest.Dial(t, f.Entry.Address)
	body := `{"model":"vllm-m","input":"x"}`
	old.Send("POST /v1/embeddings HTTP/1.0", []string{"Content-Type: application/json", "Content-Length: " + strconv.Itoa(len(body))}, body)
	if r := old.Read(); r.Body != strings.ReplaceAll(a.body, "NAME", "vllm-m") || r.Header.Get("Content-Length") != "" {
		t.Errorf("by HTTP/1.0: %d %v, %d bytes", r.Status, r.Header, len(r.Body))
	}
}

// writeNamed answers as an engine does.
func writeNamed(w http.ResponseWriter, a namedAnswer) {
	body := strings.ReplaceAll(a.body, "NAME", engineName)
	w.Header().Set("Content-Type", a.contentType)
	if a.length {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	if strings.HasPrefix(body, `{"error"`) {
		w.WriteHeader(http.StatusBadRequest)
	}
	for len(body) > 0 {
		n := min(len(body), 7777)
		_, _ = w.Write([]byte(body[:n]))
		w.(http.Flusher).Flush()
		body = body[n:]
	}
}

// A body that is cut is not made to look whole by a name that is longer or shorter.
func TestAnswerModelOfACutBody(t *testing.T) {
	t.Parallel()
	cut := namedAnswers()["vectors"]
	cut.body = cut.body[:len(cut.body)-len(`NAME","usage":{"prompt_tokens":1}}`)] + engineName[:5]
	_, documents := fleettest.StartStubEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		writeNamed(w, namedAnswer{contentType: cut.contentType, body: cut.body})
	})
	for _, direct := range []bool{false, true} {
		f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}, Direct: direct}, documents+"aliases: [m]\nanswer_model: requested\n")
		f.WatchShared(4)
		c := wiretest.Dial(t, f.Entry.Address)
		c.Post("/v1/embeddings", `{"model":"m","input":"x"}`)
		if r := c.Read(); r.Err == nil {
			t.Errorf("direct %v: %d, a whole body of %d bytes", direct, r.Status, len(r.Body))
		}
	}
}

// A colo server learns nothing of the name, so that one of an earlier version serves such requests too.
func TestAnswerModelIsTheEntrysAlone(t *testing.T) {
	t.Parallel()
	colo, documents := fleettest.StartStubColo(t, "elsewhere", "elsewhere-1", func(hop.Wait) string { return "" })
	const routing = "pool: demo\nrouting: {steps: [{colos: [elsewhere]}]}\n"
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}},
		documents+"key: models/plain\n"+routing+"---\nkey: models/renamed\nanswer_model: requested\nupstream_name: x\n"+routing)
	f.WatchShared(4)
	testkit.WaitFor(t, "the models", func() bool { return f.Chat(`{"model":"renamed","messages":[]}`).Status == 200 })
	f.Chat(`{"model":"plain","messages":[]}`)
	requests := colo.Requests()
	renamed, plain := requests[len(requests)-2].Header, requests[len(requests)-1].Header
	if fmt.Sprint(len(renamed), membersOf(t, renamed)) != fmt.Sprint(len(plain), membersOf(t, plain)) {
		t.Errorf("headers %v, token %v; without answer_model %v, %v", renamed, membersOf(t, renamed), plain, membersOf(t, plain))
	}
}

// membersOf returns the names of the members of a hop token, in order.
func membersOf(t *testing.T, h http.Header) []string {
	t.Helper()
	parts := strings.Split(h.Get(hop.HeaderToken), ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[min(1, len(parts)-1)])
	var members map[string]any
	if err == nil {
		err = json.Unmarshal(payload, &members)
	}
	if err != nil {
		t.Fatalf("token %q: %v", h.Get(hop.HeaderToken), err)
	}
	return slices.Sorted(maps.Keys(members))
}
