package refusals_test

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// input is a request that is made to cost much.
type input struct {
	name, path string   // path: empty = that of chat completions
	lines      []string // of the header; a framing is added unless one is here
	body       string
	chunked    bool
	status     int
}

// costlyInputs are one or two of each kind. openai tests all bodies that are nested, ambiguous or no UTF-8,
// forwarding/httpguard all heads, and trust all codings. The model "small" accepts a KiB.
func costlyInputs() []input {
	const deep = 100_000
	large := `{"model":"demo-chat","messages":[{"role":"user","content":"` + strings.Repeat("a", 16<<20) + `"}]}`
	small := `{"model":"small","messages":[{"role":"user","content":"` + strings.Repeat("a", 1<<10) + `"}]}`
	form := func(first, second string) string {
		return "--XX\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + first + "\r\n--XX\r\nContent-Disposition: form-data; " + second + "\r\n--XX--\r\n"
	}
	isForm, transcriptions := []string{"Content-Type: multipart/form-data; boundary=XX"}, "/v1/audio/transcriptions"
	return []input{
		{name: "large", body: large, status: 413},
		{name: "large, in chunks", body: large, chunked: true, status: 413},
		{name: "larger, announced", lines: []string{"Content-Length: 999999999999999"}, status: 413},
		{name: "more than a number, announced", lines: []string{"Content-Length: 99999999999999999999"}, status: 400},
		{name: "largest chunk", lines: []string{"Transfer-Encoding: chunked"}, body: "FFFFFFFFFFFFFFFF\r\nx", status: 400},
		{name: "endless chunk size", lines: []string{"Transfer-Encoding: chunked"}, body: strings.Repeat("0", 100), status: 400},
		{name: "for a small model", body: small, status: 413},
		{name: "for a small model, as a form in chunks", path: transcriptions, lines: isForm, chunked: true, status: 413,
			body: form("small", "name=\"file\"; filename=\"a\"\r\n\r\n"+strings.Repeat("a", 1<<10))},
		{name: "target", path: fleettest.ChatPath + "?" + strings.Repeat("a", 20<<10), body: "{}", status: 431},
		{name: "header", lines: []string{"X-Long: " + strings.Repeat("a", 20<<10)}, body: "{}", status: 431},
		{name: "101 headers", lines: slices.Repeat([]string{"X-A: 1"}, 99), body: fleettest.ChatBody(1, false), status: 431},
		{name: "100 headers", lines: slices.Repeat([]string{"X-A: 1"}, 98), body: fleettest.ChatBody(1, false), status: 200},
		{name: "nested", body: `{"model":"demo-chat","x":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + `}`, status: 400},
		{name: "nested objects without an end", path: "/v1/responses", body: strings.Repeat(`{"a":`, deep), status: 400},
		{name: "two models", body: `{"model":"demo-chat","messages":[],"mod\u0065l":"small"}`, status: 400},
		{name: "two models in a form", path: transcriptions, lines: isForm, body: form("demo-chat", "name=\"MODEL\"\r\n\r\nsmall"), status: 400},
		{name: "a model's name in metadata", body: `{"model":"demo-chat","messages":[],"metadata":{"model":"a","model":"b"}}`, status: 200},
		{name: "invalid UTF-8", body: `{"model":"demo-chat","messages":[{"role":"user","content":"` + strings.Repeat("a", 9<<10) + "\xed\xa0\x80aaaaaaaa" + `"}]}`, status: 400},
		{name: "valid UTF-8", body: `{"model":"demo-chat","messages":[{"role":"user","content":"grüße, 世界 😀"}],"max_tokens":1}`, status: 200},
		{name: "a thousand completions", body: `{"model":"demo-chat","messages":[],"n":1000}`, status: 400},
		{name: "completions in another notation", body: `{"model":"demo-chat","messages":[],"n":1e3}`, status: 400},
		{name: "2000 prompts", path: "/v1/completions", body: `{"model":"demo-chat","prompt":["a"` + strings.Repeat(`,"a"`, 1999) + `]}`, status: 400},
		{name: "20 prompts, 20 times each", path: "/v1/completions", body: `{"model":"demo-chat","best_of":20,"prompt":["a"` + strings.Repeat(`,"a"`, 19) + `]}`, status: 400},
		{name: "3000 inputs", path: "/v1/embeddings", body: `{"model":"demo-embed","input":["a"` + strings.Repeat(`,"a"`, 2999) + `]}`, status: 400},
		{name: "2000 inputs", path: "/v1/embeddings", body: `{"model":"demo-embed","input":["a"` + strings.Repeat(`,"a"`, 1999) + `]}`, status: 200},
		{name: "bytes of gzip", body: "\x1f\x8b\x08\x00\x00\x00\x00\x00", status: 400},
	}
}

// wire encodes the input as it is sent.
func (in input) wire() []byte {
	path, lines, body := in.path, append([]string{"Host: x"}, in.lines...), in.body
	if path == "" {
		path = fleettest.ChatPath
	}
	switch all := strings.Join(in.lines, "\n"); {
	case in.chunked:
		lines, body = append(lines, "Transfer-Encoding: chunked"), wiretest.Chunked(body, 16<<10)
	case !strings.Contains(all, "Content-Length") && !strings.Contains(all, "Transfer-Encoding"):
		lines = append(lines, "Content-Length: "+strconv.Itoa(len(body)))
	}
	return []byte("POST " + path + " HTTP/1.1\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n" + body)
}

// Costly input is refused at once, with an error that names the fault, takes no more memory than its own size, and reaches no
// engine.
func TestCostlyInput(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, "key: models/small\nupstream_name: demo-chat\npool: demo\nmax_body: 1KiB")
	f.Watch(16)
	before, expected := f.EngineRequests(), uint64(0)
	for _, in := range costlyInputs() {
		if in.status == 200 {
			expected++
		}
		try(t, f, f.Entry.Address, in)
		in.body = in.body[:min(len(in.body), 1<<20)]
		if address, found := f.PeerListener(); found && in.status >= 400 {
			try(t, f, address, in)
		}
	}
	if n := f.EngineRequests() - before; n != expected {
		t.Errorf("%d requests reached an engine, want %d", n, expected)
	}
	if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 {
		t.Errorf("the next request: %d", a.Status)
	}
}

// try sends one input. It repeats one that took too much memory, which the rest of the process may have taken.
func try(t *testing.T, f *fleettest.Fleet, address string, in input) {
	t.Helper()
	text, most := in.wire(), 2*len(in.body)+1<<20
	for attempt := range 3 {
		w := wiretest.Dial(f.T, address)
		began, sent := allocated(), make(chan time.Time, 1)
		go func() {
			_, _ = w.Write(text) // or as much of it as is accepted
			sent <- time.Now()
		}()
		a := w.Read()
		took := time.Since(<-sent)
		cost := allocated() - began
		w.Close()
		switch public := address == f.Entry.Address; {
		case public && a.Status != in.status || a.Status/100 != in.status/100 || a.Err != nil:
			t.Errorf("%s %s: %d %v %.300q, want %d", in.name, in.path, a.Status, a.Err, a.Body, in.status)
		case a.Status >= 400 && a.APIError(t).Code == "":
			t.Errorf("%s %s: no error object: %q", in.name, in.path, a.Body)
		}
		if mark := time.Duration(testkit.AtScale(5000, 100)) * time.Millisecond; took > mark && a.Status >= 400 {
			t.Errorf("%s %s: answered after %v", in.name, in.path, took)
		}
		if cost <= most || a.Status == 200 {
			return
		}
		if attempt == 2 {
			t.Errorf("%s %s: %d KiB of memory for a body of %d KiB", in.name, in.path, cost>>10, len(in.body)>>10)
		}
	}
}

// allocated returns how many bytes this process has allocated since its start.
func allocated() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.TotalAlloc)
}
