package engines

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// text is a document that is written line by line.
type text struct{ strings.Builder }

// comment adds a sentence as a comment. Documents refuse what looks like an anchor or a merge key of YAML even there.
func (t *text) comment(format string, args ...any) {
	line := strings.NewReplacer("&", "+", "<", "(").Replace(printableLine(fmt.Sprintf(format, args...)))
	t.WriteString("# " + line + "\n")
}

func (t *text) field(name, value string) { t.WriteString(name + ": " + value + "\n") }

func (t *text) raw(key string) document.Raw {
	return document.Raw{Key: key, Value: []byte(t.String())}
}

func writeColo(colo string) document.Raw {
	var t text
	t.comment("The place of this process and of the engines below.")
	t.field("state", fleet.StateActive)
	return t.raw(fleet.KindColo.Key(colo))
}

const poolQueue = "{limit: 256, per_account: 64, max_wait: 10s}"

func writePool(p pool) document.Raw {
	var t text
	if len(p.engines) > 1 {
		t.comment("%d engines that serve the same models.", len(p.engines))
	} else {
		t.comment("One engine.")
	}
	t.field("queue", poolQueue)
	return t.raw(fleet.KindPool.Key(p.name))
}

func writeEndpoint(colo, pool string, e *Engine) document.Raw {
	var t text
	t.comment("Found: %s.", e)
	for _, note := range e.Notes {
		t.comment("%s", note)
	}
	value, reason := concurrency(e)
	t.comment("%s", reason)
	t.field("url", scalar(e.URL))
	t.field("engine", e.Kind)
	t.field("pool", scalar(pool))
	if value != "" {
		t.field("concurrency", value)
	}
	if names := upstreamNames(e); names != "" {
		t.field("names", names)
	}
	if e.KVEvents != "" {
		t.field("kv_events", scalar(e.KVEvents))
	}
	if e.Kind == "tei" && e.Models[0].Type == typeRerank {
		t.field("paths", `{"/v1/rerank": "/rerank"}`)
	}
	return t.raw(fleet.KindEndpoint.Key(colo, endpointID(e.URL)))
}

// concurrency returns the value of the field, and why it has it. "" is the default of the engine's kind.
func concurrency(e *Engine) (value, reason string) {
	switch {
	case e.Slots > 0:
		return strconv.Itoa(e.Slots), fmt.Sprintf("Concurrency: it says that it runs %d requests at once.", e.Slots)
	case e.generates():
		return "auto", "Concurrency: it does not say how many requests it runs at once, so the number is found from the time to the first token."
	}
	return "", fmt.Sprintf("Concurrency: it does not say how many requests it runs at once, so the number is the default for %s.", e.Kind)
}

// upstreamNames returns the names that the engine calls its models by where they differ, as a flow map.
func upstreamNames(e *Engine) string {
	var pairs []string
	for _, m := range e.Models {
		if m.Upstream != m.Name {
			pairs = append(pairs, quoted(m.Name)+": "+quoted(m.Upstream))
		}
	}
	if len(pairs) == 0 {
		return ""
	}
	slices.Sort(pairs)
	return "{" + strings.Join(pairs, ", ") + "}"
}

func writeModel(p pool, m Model, aliases []string) document.Raw {
	var t text
	limit := p.maxModelLen(m.Name)
	if limit > 0 && p.lasting {
		t.comment("At most %d tokens, when it was registered.", limit)
	}
	if m.Base != "" {
		t.comment("An adapter or another name of %s.", m.Base)
	}
	if m.Note != "" {
		t.comment("%s", m.Note)
	}
	t.field("type", string(m.Type))
	if p.name != m.Name {
		t.field("pool", scalar(p.name))
	}
	if limit > 0 && !p.lasting {
		t.field("max_model_len", strconv.Itoa(limit))
	}
	if len(aliases) > 0 {
		values := make([]string, 0, len(aliases))
		for _, alias := range aliases {
			values = append(values, scalar(alias))
		}
		t.field("aliases", "["+strings.Join(values, ", ")+"]")
	}
	return t.raw(fleet.KindModel.Key(m.Name))
}

// mostTokens is the largest max_model_len that documents may have.
const mostTokens = 1_000_000_000

// maxModelLen returns the longest context of a model that engines of the pool state; 0 = none does, or it is longer than any can be.
func (p pool) maxModelLen(model string) (longest int) {
	for _, e := range p.engines {
		if same := e.model(model); same != nil {
			longest = max(longest, same.MaxModelLen)
		}
	}
	if longest > mostTokens {
		return 0
	}
	return longest
}

// plainScalar matches texts that YAML reads as they stand, also in a flow list, and as text unless they are one of yamlWords.
var plainScalar = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./@+-]*$`)

var yamlWords = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// scalar returns a text as a YAML scalar.
func scalar(s string) string {
	if plainScalar.MatchString(s) && !slices.Contains(yamlWords, strings.ToLower(s)) || plainURL.MatchString(s) {
		return s
	}
	return quoted(s)
}

var plainURL = regexp.MustCompile(`^https?://[A-Za-z0-9.:/-]*[A-Za-z0-9/]$`)

// quoted returns a text between double quotes. JSON's escapes are YAML's as well.
func quoted(s string) string {
	out, err := json.Marshal(s)
	if err != nil {
		return `""` // no text fails
	}
	return string(out)
}
