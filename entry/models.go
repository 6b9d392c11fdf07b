package entry

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/fleet"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/server"
	"colonnade/openai"
)

// listModels answers with the models that the account may use, or with one of them.
func (c *call) listModels(t *fleet.Table) {
	if err := c.answerModels(t); err != nil {
		c.refuse(err)
	}
}

func (c *call) answerModels(t *fleet.Table) *openai.Error {
	name := c.route.Model
	var err *openai.Error
	if c.route.API == openai.OllamaShow {
		if t, err = c.readBody(t); err != nil {
			return err
		}
		if name, err = openai.ShownModel(c.raw); err != nil {
			return err
		}
	} else if err = c.identify(t); err != nil {
		return err
	}
	c.beginCapture()
	if c.route.API == openai.OllamaVersion {
		c.answerJSON(openai.AppendOllamaVersion(nil))
		return nil
	}
	known := knownOfModels{c.entry.models.since(t, c.arrived), c.entry.modelFacts(t)}
	switch c.route.API {
	case openai.GetModel, openai.OllamaShow:
		m, ok := t.Model(name)
		if !ok || !c.caller.MayUse(m.Name) {
			return openai.ModelNotFound(name)
		}
		info := modelInfo(m, name, &known)
		if c.route.API == openai.OllamaShow {
			c.answerJSON(openai.AppendShownModel(nil, &info))
		} else {
			c.answerJSON(openai.AppendModel(nil, &info, c.dialect()))
		}
	case openai.OllamaRunning:
		running := slices.DeleteFunc(c.usableModels(t, &known), func(m openai.ModelInfo) bool {
			fact := known.facts[m.ID] // an alias has none
			return fact.OwnedBy == "" && fact.MaxModelLen == 0
		})
		c.answerJSON(openai.AppendRunning(nil, running))
	default:
		c.answerJSON(openai.AppendModelList(nil, c.usableModels(t, &known), c.dialect()))
	}
	return nil
}

// dialect returns the dialect in which the client expects the answer.
func (c *call) dialect() openai.Dialect {
	if c.model != nil && c.route.DialectByKind() {
		return c.route.DialectWith(c.entry.observed.engines(c.model.Pool))
	}
	h := &c.rc.Request.Header
	return openai.DialectOf(h.RequestURI(), len(anthropicHeader.Of(h)) > 0)
}

// usableModels returns the models that the account may use, each followed by its aliases.
func (c *call) usableModels(t *fleet.Table, known *knownOfModels) (list []openai.ModelInfo) {
	for _, m := range t.Models() {
		if !c.caller.MayUse(m.Name) {
			continue
		}
		list = append(list, modelInfo(m, m.Name, known))
		for _, alias := range m.Aliases {
			if of, ok := t.Model(alias); ok && of == m { // and not another model with that name or alias
				list = append(list, modelInfo(m, alias, known))
			}
		}
	}
	return list
}

// knownOfModels is what is known of models beside their documents, by name.
type knownOfModels struct {
	since map[string]time.Time
	facts peer.ModelFacts
}

// modelInfo describes a model by its name, or by an alias.
func modelInfo(m *fleet.Model, name string, known *knownOfModels) openai.ModelInfo {
	fact := known.facts[m.Name]
	info := openai.ModelInfo{
		ID: name, Type: string(m.Type), OwnedBy: cmp.Or(fact.OwnedBy, "colonnade"), Created: known.since[m.Name], MaxModelLen: cmp.Or(m.MaxModelLen, fact.MaxModelLen),
	}
	if name != m.Name {
		info.AliasOf = m.Name
	}
	return info
}

// knownModels knows since when the entry has had each model in its table: documents have no times of their own. The zero value knows none.
type knownModels struct {
	mu    sync.Mutex // guards the fields below
	table *fleet.Table
	times map[string]time.Time // by name; not changed once it was returned
}

// since returns since when the entry has had the models of t. It learns of models when clients ask for them.
func (k *knownModels) since(t *fleet.Table, now time.Time) map[string]time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.table == t {
		return k.times
	}
	times := make(map[string]time.Time, len(t.Models()))
	for _, m := range t.Models() {
		times[m.Name] = now
		if at, ok := k.times[m.Name]; ok {
			times[m.Name] = at
		}
	}
	k.table, k.times = t, times
	return times
}

// answerJSON answers with a JSON body that the entry itself has made.
func (c *call) answerJSON(body []byte) {
	server.EachRequestID(c.dialect(), c.id, server.SetIn(&c.rc.Response.Header))
	server.WriteBody(c.rc, fasthttp.StatusOK, "application/json", body)
	if c.rc.IsHead() {
		body = nil // fasthttp sends its length only
	}
	c.logOwnAnswer(body)
}

// serveHealth answers health checks, which need no key and leave no event. It reports whether the request was one.
func (e *Entry) serveHealth(rc *fasthttp.RequestCtx) bool {
	path, _, _ := strings.Cut(string(rc.RequestURI()), "?")
	switch path {
	case "/health", "/health/ready", "/health/live":
	default:
		return false
	}
	if err := server.CheckHead(&rc.Request.Header, e.maxBody()); err != nil {
		e.refuseWithoutEvent(rc, err)
		rc.SetConnectionClose() // a client that sends such a head may have more behind it
		return true
	}
	var err error
	if path != "/health/live" {
		err = e.Ready()
		e.probers.asked(rc.RemoteIP().String(), e.draining.Load(), time.Now())
	}
	if !rc.IsGet() && !rc.IsHead() {
		e.refuseWithoutEvent(rc, openai.MethodNotAllowed(string(rc.Method()), "GET, HEAD"))
		return true
	}
	status, text := fasthttp.StatusOK, "ok\n"
	if err != nil {
		status, text = fasthttp.StatusServiceUnavailable, err.Error()+"\n"
	}
	server.WriteBody(rc, status, "text/plain; charset=utf-8", []byte(text))
	return true
}
