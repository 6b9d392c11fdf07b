package sdk

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

const frameworks = "python/frameworks/.venv/bin/python"

// clientPaths are the paths that the clients use.
var clientPaths = []string{
	"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings",
	"/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio/translations",
	"/v1/images/generations", "/v1/images/edits", "/v1/images/variations", "/v1/realtime",
	"/v1/models", "/v1/messages", "/v1/messages/count_tokens",
	"/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/api/tags", "/api/ps", "/api/show",
}

// program is a client: a script whose checks are named by path, kind of engine and feature.
type program struct {
	client    string // the name of its package, as its registry has it
	language  string
	installed string // a file that is there if the client is
	command   []string
}

var programs = []program{
	{"openai", "JavaScript", js, []string{node, "js/chat.mjs"}},
	{"openai", "Python", python, []string{python, "python/chat.py"}},
	{"@anthropic-ai/sdk", "JavaScript", js, []string{node, "js/messages.mjs"}},
	{"anthropic", "Python", python, []string{python, "python/messages.py"}},
	{"ollama", "JavaScript", js, []string{node, "js/ollama.mjs"}},
	{"ollama", "Python", python, []string{python, "python/ollamaapi.py"}},
	{"@ai-sdk/openai-compatible", "JavaScript", js, []string{node, "js/providers.mjs", "openai-compatible"}},
	{"@ai-sdk/anthropic", "JavaScript", js, []string{node, "js/providers.mjs", "anthropic"}},
	{"langchain-openai", "Python", frameworks, []string{frameworks, "python/frameworks/langchains.py", "openai"}},
	{"langchain-anthropic", "Python", frameworks, []string{frameworks, "python/frameworks/langchains.py", "anthropic"}},
	{"langchain-ollama", "Python", frameworks, []string{frameworks, "python/frameworks/langchains.py", "ollama"}},
	{"llama-index-llms-openai-like", "Python", frameworks, []string{frameworks, "python/frameworks/llamaindex.py", "openai"}},
	{"llama-index-llms-ollama", "Python", frameworks, []string{frameworks, "python/frameworks/llamaindex.py", "ollama"}},
	{"litellm", "Python", frameworks, []string{frameworks, "python/frameworks/lite.py"}},
}

// Every client works with engines of every kind whose paths it uses, and docs/compatibility.md says so.
func TestClients(t *testing.T) {
	f := startKinds(t)
	kinds := map[string][]string{}
	for _, path := range clientPaths {
		kinds[path] = f.kindsWith(t, path)
	}
	said, err := json.Marshal(kinds)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		t.Run(strings.ReplaceAll(p.client, "/", "-")+" "+p.language, func(t *testing.T) {
			needs(t, p.installed)
			c := conversation{t: t, f: f, start: map[string]int{}}
			c.run(startScript(t, f.Fleet, []string{"COLONNADE_GATEWAY=1", "COLONNADE_KINDS=" + string(said)}, p.command[0], p.command[1:]...))
			if !t.Failed() {
				checkClient(t, p, recordOf(t, c.done, c.differs, f.how(c.start)))
			}
		})
	}
}

// how returns how the requests that engines have got since the start arrived: by kind and path, as clients have spelt it.
func (f *kindFleet) how(start map[string]int) map[string]map[string]bool {
	paths := map[string]map[string]bool{}
	for model, e := range f.engines {
		for _, r := range e.Received()[start[model]:] {
			if paths[e.kind] == nil {
				paths[e.kind] = map[string]bool{}
			}
			path, _, _ := strings.Cut(r.Target, "?")
			paths[e.kind][path] = true
		}
	}
	return paths
}

// conversation is a test's side of a script that asks for things: see tell in js/lib.mjs.
type conversation struct {
	t      *testing.T
	f      *kindFleet
	start  map[string]int    // how many requests an engine had got at the beginning, by model
	before map[string]uint64 // how many it had got when its fault was set
	done   []string          // the checks that have passed

	differs []string // what a program must know: a path and a sentence
}

// run reads what the script prints until it ends.
func (c *conversation) run(s *talk) {
	c.t.Helper()
	c.before = map[string]uint64{}
	for model, e := range c.f.engines {
		c.start[model] = len(e.Received())
		e.ClearFaults()
	}
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			break
		}
		s.output.WriteString(line)
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "ok":
			c.done = append(c.done, rest)
		case "differs":
			c.differs = append(c.differs, rest)
		case "left", "fault", "requests":
			fmt.Fprintln(s.in, c.answer(word, strings.Fields(rest)))
		}
	}
	if out, err := s.end(); err != nil || len(c.done) == 0 {
		c.t.Errorf("%v\n%s", err, out)
	}
}

// answer does what the script wants with the engine of a model.
func (c *conversation) answer(word string, args []string) string {
	e := c.f.engines[args[0]]
	if e == nil {
		return "no such model"
	}
	switch word {
	case "fault":
		c.before[args[0]] = e.Stats().Requests
		e.SetFault(simengine.Fault{Fault: args[1], Count: 1})
		return "set"
	case "requests":
		return fmt.Sprint(e.Stats().Requests - c.before[args[0]])
	}
	testkit.WaitFor(c.t, "the engine of "+args[0]+" to end the request of a client that has left", func() bool {
		return e.Stats().Running+e.Stats().Waiting == 0
	})
	return "idle"
}
