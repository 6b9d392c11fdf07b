package entry

import (
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/accounts"
	"colonnade/accounts/jwt"
	"colonnade/fleet"
	"colonnade/forwarding/server"
	"colonnade/openai"
)

// head is what is known of a request before its body is read.
type head struct {
	page   webPage
	route  openai.Route
	caller accounts.Caller
}

// checkHead runs the strict guard over a head, before anything else looks at it.
func (e *Entry) checkHead(h *fasthttp.RequestHeader, t *fleet.Table) *openai.Error {
	limit := t.MaxBody().Int()
	if e.starting() {
		limit = 0 // not known yet; no body is read
	}
	return server.CheckHead(h, limit)
}

// readHead reads a head that has passed the guard: the route, and for requests with a body the account, so that no body is read of a
// client that is unknown or may run nothing. An error comes with everything that was found out before it.
func (e *Entry) readHead(h *fasthttp.RequestHeader, t *fleet.Table, page webPage, now time.Time) (head, *openai.Error) {
	read := head{page: page}
	var err *openai.Error
	if read.route, err = openai.ParseRoute(h.Method(), h.RequestURI()); err != nil {
		return read, err
	}
	if read.route.API == openai.Realtime || read.route.API.AboutModels() && read.route.API != openai.OllamaShow { // which has a body
		return read, nil
	}
	if read.caller, err = e.identify(t, keyOf(h), page, now); err != nil {
		return read, err
	}
	if err = checkMayRun(read.caller.Account); err != nil {
		return read, err
	}
	if coding := h.ContentEncoding(); len(coding) > 0 {
		return read, openai.InvalidRequest("", "the header content-encoding is %.40q: send the body as it is", coding)
	}
	return read, nil
}

// checkMayRun refuses an account that may run no request at all, whatever its body is.
func checkMayRun(a *fleet.Account) *openai.Error {
	switch {
	case a.Models != nil && len(a.Models) == 0:
		return openai.NoModelAllowed()
	case a.Limits.Concurrent == 0:
		return openai.NothingMayRun()
	}
	return nil
}

// keyHeaders are the headers beside Authorization in which clients send API keys. They are in none of the lists of headers that colo servers,
// engines and captures get.
var keyHeaders = [...]server.HeaderName{server.NewHeaderName("Api-Key"), server.NewHeaderName("X-Api-Key")}

// sentKey is the API key or the token that a client has sent, if err is nil. It is empty if there is none.
type sentKey struct {
	text string
	err  error
}

// keyOf returns the API key of a request, from its head and from other places.
func keyOf(h *fasthttp.RequestHeader, others ...string) (key sentKey) {
	sent := make([]string, 0, 4) // enough that it is on the stack
	for _, name := range keyHeaders {
		sent = append(sent, string(name.Of(h)))
	}
	key.text, key.err = accounts.Key(string(authorizationHeader.Of(h)), append(sent, others...)...)
	return key
}

// identify finds the account by an API key, and refuses pages whose requests are not served.
func (e *Entry) identify(t *fleet.Table, key sentKey, page webPage, now time.Time) (accounts.Caller, *openai.Error) {
	if key.err != nil {
		return accounts.Caller{}, openai.InvalidAPIKey(key.err.Error())
	}
	caller, err := e.callerOf(t, key.text, now)
	switch {
	case err == nil:
		return caller, page.refused(caller.KeyID != "")
	case key.text == "" && page.trust == trustForeign:
		return caller, openai.OriginNotAllowed(page.origin) // a key would be of no use: the page could not read the answer
	}
	return caller, openai.InvalidAPIKey(err.Error())
}

// callerOf finds the caller by an API key, or by the token of an issuer.
func (e *Entry) callerOf(t *fleet.Table, key string, now time.Time) (accounts.Caller, error) {
	if jwt.IsToken(t, key) {
		return e.tokens.Identify(t, key, e.config.Open, now)
	}
	return accounts.Identify(t, key, e.config.Open, now)
}

// rejectEarly reports by the head alone that a request will be refused.
func (e *Entry) rejectEarly(h *fasthttp.RequestHeader) bool {
	t := e.config.Table()
	if e.starting() || e.checkHead(h, t) != nil {
		return true
	}
	_, err := e.readHead(h, t, readPage(h, t.Origins()), time.Now())
	return err != nil
}

// bodySkipped reports that the request was rejected early, so that its body was not read (see [server.Config]), though its head
// announced one. The table may have changed since, and accept the request now.
func bodySkipped(h *fasthttp.RequestHeader) bool {
	return h.ContentLength() == 0 && server.CheckHead(h, 1) != nil
}
