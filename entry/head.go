package entry

import (
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/accounts"
	"colonnade/fleet"
	"colonnade/forwarding/server"
	"colonnade/openai"
)

// head is what the head of a request tells: all that is known before its body is read.
type head struct {
	route  openai.Route
	caller accounts.Caller
}

// checkHead runs the guard, which comes before anything else is made of a head.
func (e *Entry) checkHead(h *fasthttp.RequestHeader, t *fleet.Table) *openai.Error {
	limit := t.MaxBody().Int()
	if e.starting() {
		limit = 0 // it is not known yet; nothing is read
	}
	return server.CheckHead(h, limit)
}

// readHead reads a head that has passed the guard: nobody's body is read for nothing. What it has found out before an
// error is returned with it. Requests that have no body tell later who sends them.
func (e *Entry) readHead(h *fasthttp.RequestHeader, t *fleet.Table, now time.Time) (head, *openai.Error) {
	var read head
	var err *openai.Error
	if read.route, err = openai.ParseRoute(h.Method(), h.RequestURI()); err != nil {
		return read, err
	}
	switch read.route.API {
	case openai.ListModels, openai.GetModel, openai.Realtime:
		return read, nil
	}
	if read.caller, err = e.identify(t, accounts.Bearer(string(h.Peek("Authorization"))), now); err != nil {
		return read, err
	}
	if coding := h.ContentEncoding(); len(coding) > 0 {
		return read, openai.InvalidRequest("", "the header content-encoding is %.40q: send the body as it is", coding)
	}
	return read, nil
}

// identify finds the account by an API key.
func (e *Entry) identify(t *fleet.Table, key string, now time.Time) (accounts.Caller, *openai.Error) {
	caller, err := accounts.Identify(t, key, e.config.Open, now)
	if err != nil {
		return caller, openai.InvalidAPIKey(err.Error())
	}
	return caller, nil
}

// unwanted says by the head alone that a request will be refused.
func (e *Entry) unwanted(h *fasthttp.RequestHeader) bool {
	t := e.config.Table()
	if e.starting() || e.checkHead(h, t) != nil {
		return true
	}
	_, err := e.readHead(h, t, time.Now())
	return err != nil
}

// isSkipped says that the request was unwanted, so that its body is not there (see [server.Config]), though
// what stood on the wire announced one. A table that has come since may want it.
func isSkipped(h *fasthttp.RequestHeader) bool {
	return h.ContentLength() == 0 && server.CheckHead(h, 1) != nil
}
