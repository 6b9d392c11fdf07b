package engines

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// checkDocuments checks what holds for the documents of any engines: each is valid, no two are in conflict, none refers to one that
// does not exist, and a file of them has the same documents again.
func checkDocuments(t testing.TB, found []*Engine) []document.Raw {
	t.Helper()
	docs, err := Documents("local", found)
	if err != nil {
		t.Fatal(err)
	}
	file, err := document.JoinFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	again, err := document.SplitFile(file)
	if err != nil || !slices.EqualFunc(docs, again, sameDocument) {
		t.Fatalf("the file has other documents (error %v):\n%s", err, file)
	}
	set := document.NewSet()
	for i, d := range docs {
		if slices.ContainsFunc(docs[:i], func(other document.Raw) bool { return other.Key == d.Key }) {
			t.Errorf("two documents with the key %s", d.Key)
		}
		if err := set.Put(d.Key, d.Value, 0); err != nil {
			t.Errorf("%v in\n%s", err, d.Value)
		}
	}
	table := set.Table()
	if len(table.Rejected)+len(table.Conflicts)+len(table.Dangling()) > 0 {
		t.Errorf("rejected %v, conflicts %v, dangling %v", table.Rejected, table.Conflicts, table.Dangling())
	}
	for _, e := range found {
		if e == nil {
			continue
		}
		for _, m := range e.Models {
			got, ok := table.Model(m.Name)
			if !ok || got.Name != m.Name || got.Type != m.Type {
				t.Errorf("no model %q of type %s: %+v", m.Name, m.Type, got)
				continue
			}
			at := slices.IndexFunc(table.Endpoints("local", got.Pool), func(p *fleet.Endpoint) bool { return p.URL == e.URL })
			if at < 0 {
				t.Errorf("model %q: no endpoint %s in pool %q", m.Name, e.URL, got.Pool)
				continue
			}
			endpoint := table.Endpoints("local", got.Pool)[at]
			upstream, renamed := endpoint.Names[m.Name]
			if !renamed {
				upstream = got.UpstreamName
			}
			if upstream != m.Upstream || endpoint.Engine != e.Kind {
				t.Errorf("model %q is %q of %s, want %q of %s", m.Name, upstream, endpoint.Engine, m.Upstream, e.Kind)
			}
		}
	}
	return docs
}

func chat(name string) Model {
	return Model{Name: name, Upstream: name, Type: fleet.TypeChat}
}

// The documents can be read by a person.
func TestDocumentsSayWhatWasFoundAndAssumed(t *testing.T) {
	t.Parallel()
	files := []string{"vllm", "llamacpp", "tei-rerank", "ollama"}
	var found []*Engine
	for i, file := range files {
		e := ask(t, serveFile(t, file))
		e.URL = fmt.Sprintf("http://gpu%d:8000", i+1)
		found = append(found, e)
	}
	second := *found[1]
	second.URL, second.Slots = "http://gpu9:8000", 8
	found = append(found, &second, nil)
	docs := checkDocuments(t, found)
	file, err := document.JoinFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	const want = `key: colos/local
# The place of this process and of the engines below.
state: active
---
key: pools/meta-llama/Llama-3.1-8B-Instruct
# One engine.
queue: {limit: 256, per_account: 64, max_wait: 10s}
---
key: endpoints/local/gpu1-8000
# Found: vLLM 0.11.0.
# vLLM shows max_num_seqs only in its development mode; if you know it, write it as the concurrency.
# Concurrency: it does not say how many requests it runs at once, so the number is found from the time to the first token.
url: http://gpu1:8000
engine: vllm
pool: meta-llama/Llama-3.1-8B-Instruct
concurrency: auto
---
key: models/meta-llama/Llama-3.1-8B-Instruct
type: chat
max_model_len: 32768
aliases: [default]
---
key: models/llama
# An adapter or another name of meta-llama/Llama-3.1-8B-Instruct.
type: chat
pool: meta-llama/Llama-3.1-8B-Instruct
max_model_len: 32768
---
key: models/sql-lora
# An adapter or another name of meta-llama/Llama-3.1-8B-Instruct.
type: chat
pool: meta-llama/Llama-3.1-8B-Instruct
---
key: pools/Meta-Llama-3.1-8B-Instruct-Q4_K_M
# 2 engines that serve the same models.
queue: {limit: 256, per_account: 64, max_wait: 10s}
---
key: endpoints/local/gpu2-8000
# Found: llama.cpp b6765-466c1911.
# Concurrency: it says that it runs 4 requests at once.
url: http://gpu2:8000
engine: llamacpp
pool: Meta-Llama-3.1-8B-Instruct-Q4_K_M
concurrency: 4
names: {"Meta-Llama-3.1-8B-Instruct-Q4_K_M": "../models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf"}
---
key: endpoints/local/gpu9-8000
# Found: llama.cpp b6765-466c1911.
# Concurrency: it says that it runs 8 requests at once.
url: http://gpu9:8000
engine: llamacpp
pool: Meta-Llama-3.1-8B-Instruct-Q4_K_M
concurrency: 8
names: {"Meta-Llama-3.1-8B-Instruct-Q4_K_M": "../models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf"}
---
key: models/Meta-Llama-3.1-8B-Instruct-Q4_K_M
# The engine does not say which API the model answers; type chat is assumed from its name.
type: chat
max_model_len: 16384
---
key: pools/bge-reranker-large
# One engine.
queue: {limit: 256, per_account: 64, max_wait: 10s}
---
key: endpoints/local/gpu3-8000
# Found: TEI 1.9.0.
# Concurrency: it does not say how many requests it runs at once, so the number is the default for tei.
url: http://gpu3:8000
engine: tei
pool: bge-reranker-large
paths: {"/v1/rerank": "/rerank"}
---
key: models/bge-reranker-large
# TEI answers POST /rerank with texts in place of documents.
type: rerank
max_model_len: 512
---
key: pools/ollama-gpu4-8000
# One engine.
queue: {limit: 256, per_account: 64, max_wait: 10s}
---
key: endpoints/local/gpu4-8000
# Found: Ollama 0.12.6.
# Concurrency: it does not say how many requests it runs at once, so the number is found from the time to the first token.
url: http://gpu4:8000
engine: ollama
pool: ollama-gpu4-8000
concurrency: auto
---
key: models/alice/tuned:7b
type: chat
pool: ollama-gpu4-8000
---
key: models/llama3.2:latest
type: chat
pool: ollama-gpu4-8000
aliases: [llama3.2]
---
key: models/nomic-embed-text:latest
type: embedding
pool: ollama-gpu4-8000
aliases: [nomic-embed-text]
`
	got, wanted := strings.Split(string(file), "\n"), strings.Split(want, "\n")
	for i := range max(len(got), len(wanted)) {
		if i >= len(got) || i >= len(wanted) || got[i] != wanted[i] {
			t.Fatalf("line %d differs in\n%s", i+1, file)
		}
	}
}

// An engine that comes up later changes nothing of the documents that are there.
func TestDocumentsOfEnginesThatComeUpLater(t *testing.T) {
	t.Parallel()
	a := &Engine{URL: "http://a:1", Kind: "vllm", Models: []Model{chat("m")}}
	b := &Engine{URL: "http://b:1", Kind: "vllm", Models: []Model{chat("n")}}
	late := checkDocuments(t, []*Engine{nil, b})
	all := checkDocuments(t, []*Engine{a, b})
	for _, d := range late {
		if !slices.ContainsFunc(all, func(other document.Raw) bool { return sameDocument(d, other) }) {
			t.Errorf("%s is another document once the first engine is up:\n%s", d.Key, d.Value)
		}
	}
	if text := fmt.Sprintf("%s", late); strings.Contains(text, aliasDefault+"]") {
		t.Errorf("the alias of the first engine's model went to another:\n%s", text)
	}
}

func TestAliases(t *testing.T) {
	t.Parallel()
	f := func(want string, found ...*Engine) {
		t.Helper()
		set := document.NewSet()
		for _, d := range checkDocuments(t, found) {
			_ = set.Put(d.Key, d.Value, 0)
		}
		var got []string
		for _, m := range set.Table().Models() {
			for _, alias := range m.Aliases {
				got = append(got, alias+"="+m.Name)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("got %q, want %q", s, want)
		}
	}
	engine := func(kind string, models ...Model) *Engine {
		return &Engine{URL: "http://" + kind + ":1", Kind: kind, Models: models}
	}
	f("default=m", engine("vllm", chat("m")))
	f("", engine("vllm", chat("m"), chat("n")))
	f("", engine("vllm", Model{Name: "m", Upstream: "m", Type: typeEmbedding}))
	f("", engine("vllm", chat("m")), engine("sglang", chat("default")))
	f("", engine("vllm"), engine("sglang", chat("m")))
	f("default=m:latest m=m:latest", engine("ollama", chat("m:latest")))
	f("", engine("ollama", chat("m:latest"), chat("m")))
	f("default=m:latest", engine("vllm", chat("m:latest")))
	f("default=default:latest", engine("ollama", chat("default:latest")))
}

// Engines that are not alike to a client are refused with both URLs and what to do.
func TestDocumentsOfEnginesThatDoNotGoTogether(t *testing.T) {
	t.Parallel()
	f := func(a, b []Model, want ...string) {
		t.Helper()
		found := []*Engine{{URL: "http://a:1", Kind: "vllm", Models: a}, {URL: "http://b:1", Kind: "vllm", Models: b}}
		if len(want) == 0 {
			checkDocuments(t, found)
			return
		}
		_, err := Documents("local", found)
		if err == nil {
			t.Fatal("no error")
		}
		for _, part := range append(want, "http://a:1", "http://b:1", "model m") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("got %q, want it to contain %q", err, part)
			}
		}
	}
	long := func(n int) []Model {
		m := chat("m")
		m.MaxModelLen = n
		return []Model{m}
	}
	f(long(8192), long(8192))
	f(long(8192), long(0))
	f(long(8192), long(32768), "max_model_len 8192 and 32768", "same limit", "another name")
	f([]Model{chat("m")}, []Model{{Name: "m", Upstream: "m", Type: typeEmbedding}}, "type chat and type embedding", "another name")
	f([]Model{chat("m"), chat("x")}, []Model{chat("m"), chat("y")}, "only http://a:1 serves x and only http://b:1 serves y", "let both serve the same models")
	f([]Model{chat("m")}, []Model{chat("m"), chat("y")}, "only http://b:1 serves y")
	f([]Model{chat("m"), chat("x")}, []Model{chat("x"), chat("m")})
	f([]Model{chat("m")}, []Model{chat("n")})
	if _, err := Documents("local", []*Engine{{URL: "http://a:1", Models: long(1)}, {URL: "http://a:1", Models: long(1)}}); err == nil ||
		!strings.Contains(err.Error(), "given twice") {
		t.Errorf("one URL twice: %v", err)
	}
}

func TestEndpointIDs(t *testing.T) {
	t.Parallel()
	f := func(url, want string) {
		t.Helper()
		normal, err := normalURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			return
		}
		got := endpointID(normal)
		if got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
		if err := document.CheckKey(fleet.KindEndpoint.Key("local", got)); err != nil {
			t.Error(err)
		}
	}
	f("http://127.0.0.1:8000", "127.0.0.1-8000")
	f("127.0.0.1:8000", "127.0.0.1-8000")
	f("localhost:11434/v1/", "localhost-11434")
	f("HTTP://GPU-1:80", "gpu-1-80")
	f("https://gpu.example.org", "gpu.example.org-443")
	f("http://gateway/ollama", "gateway-80/ollama")
	f("http://[::1]:8000", "ip6-::1-8000")
	f("http://gpu_1:8000", "gpu_1-8000")
	f("http://_gpu:8000", "gpu-8000-32cbb3d3")
	f("http://gateway/~a", "gateway-80/-a-4f5ec7b7")
	f("http://"+strings.Repeat("a", 130), strings.Repeat("a", 119)+"-a2474fe4")
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	f := func(url, want string) {
		t.Helper()
		err := CheckURL(url)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows a password: %v", err)
		}
	}
	f("gpu1:8000", "")
	f("http://gpu1", "")
	f("", "must be a URL")
	f("ftp://gpu1", "http or https")
	f("http://user:secret@gpu1", "must be a URL")
	f("http://gpu1:99999", "must be a URL")
	f("http://gpu1?x=1", "must be a URL")
}

// A text means the same in a document as in the answer of an engine.
func TestScalarsKeepTheirText(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"default", "no", "Yes", "null", "llama", "a:", "a: b", "1e3", "e1.5", "x/y.z-1", "http://a:1", "http://a:", "https://[::1]:8/x",
		"y", "on/off", "n-1", "<>&\u2028\"\\", "-", "a #b", "ünï", "nan", "inf", "0x1", "a,b", "{a}"} {
		doc := []byte("pool: p\nurl: http://a\nnames: {m: " + scalar(s) + "}\nconcurrency: 1\n")
		set := document.NewSet()
		if err := set.Put("endpoints/c/e", doc, 0); err != nil {
			t.Errorf("%q: %v", s, err)
			continue
		}
		if got := set.Noun("endpoints/c/e").(*fleet.Endpoint).Names["m"]; got != s {
			t.Errorf("got %q, want %q", got, s)
		}
	}
}

func FuzzDocuments(f *testing.F) {
	f.Add("llama", "/models/llama.gguf", "0.1", "a note", 3, 4096)
	f.Add("no", "1e3", "\n---\n", "key: x", -1, -5)
	f.Add("<<", "m", "*a &b", "<< *a &b", 3, 1)
	f.Add("a:", "b:latest", "# x", "\u2028y", 1<<60, 1<<60)
	f.Fuzz(func(t *testing.T, first, second, version, note string, slots, length int) {
		e := &Engine{URL: "http://gpu:1", Kind: "ollama", Version: version, Slots: clampSlots(slots, 1)}
		e.note("%s", note)
		for _, upstream := range []string{first, second} {
			e.add(guessed(Model{Upstream: upstream, MaxModelLen: max(length, 0), Base: modelName(first), Note: note}))
		}
		docs := checkDocuments(t, []*Engine{e})
		for _, d := range docs {
			if bytes.Count(d.Value, []byte("\n#"))+bytes.Count(d.Value, []byte("\n")) > 20 {
				t.Errorf("a text made lines of its own:\n%s", d.Value)
			}
		}
	})
}
