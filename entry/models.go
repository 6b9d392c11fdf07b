package entry

import (
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/server"
	"colonnade/openai"
)

// listModels answers with the models that the account may use, or with one of them.
func (c *call) listModels() {
	t := c.entry.config.Table()
	if err := c.identify(t); err != nil {
		c.refuse(err)
		return
	}
	c.beginCapture()
	if c.route.Dialect == openai.DialectOllama {
		c.refuse(openai.UnknownURL(c.route.Path))
		return
	}
	if c.route.API == openai.GetModel {
		m, ok := t.Model(c.route.Model)
		if !ok || !c.caller.MayUse(m.Name) {
			c.refuse(openai.ModelNotFound(c.route.Model))
			return
		}
		c.answerJSON(openai.AppendModel(nil, modelInfo(m.Name)))
		return
	}
	var list []openai.ModelInfo
	for _, m := range t.Models() {
		if c.caller.MayUse(m.Name) {
			list = append(list, modelInfo(m.Name))
		}
	}
	c.answerJSON(openai.AppendModelList(nil, list))
}

func modelInfo(name string) openai.ModelInfo { return openai.ModelInfo{ID: name, OwnedBy: "colonnade"} }

// answerJSON answers with a JSON body that the entry itself has made.
func (c *call) answerJSON(body []byte) {
	c.rc.Response.Header.Set(hop.HeaderRequestID, c.id)
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
