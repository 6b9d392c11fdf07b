package entry

import (
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/fleet"
	"colonnade/forwarding/httpguard"
	"colonnade/forwarding/server"
	"colonnade/openai"
	"colonnade/reasons"
)

// preflightMaxAge is how long a browser may use the answer to a preflight, in seconds: the longest time that Chromium accepts.
const preflightMaxAge = "7200"

// webPage is the page on whose behalf a browser has sent a request. The zero value stands for a client that is no browser, and for
// what browsers send without naming a page: plain GET requests, whose answers only a page of the same origin can read.
//
// A page of another origin can send a POST without asking first (a "simple" request of CORS), but no API key that its author does not
// know. So without a valid key the origin decides whether the request is served, and with one only whether the page may read the
// answer. Browsers let every page open a WebSocket and read from it, so there the origin decides in both cases.
type webPage struct {
	origin      string // as sent; may be empty
	trust       pageTrust
	allowOrigin string // value of Access-Control-Allow-Origin; empty = the page may not read the answer
}

// pageTrust says which requests of a page are served.
type pageTrust int

const (
	// trustAlways: all requests. There is no page, or it has a listed origin or that of the entry.
	trustAlways pageTrust = iota
	// trustWithKey: requests and sessions with a valid key. Every origin is listed, or the page has the origin of the entry under a name
	// that can be rebound.
	trustWithKey
	// trustForeign: requests with a valid key, and no sessions. The origin is not listed.
	trustForeign
)

// readPage finds out from a head, which need not have passed the guard, which page has sent a request.
func readPage(h *fasthttp.RequestHeader, origins []string) webPage {
	origin := originHeader.Of(h)
	if len(origin) == 0 {
		if h.IsGet() || h.IsHead() {
			return webPage{}
		}
		switch string(fetchSiteHeader.Of(h)) {
		case "cross-site", "same-site":
			return webPage{trust: trustForeign}
		}
		return webPage{}
	}
	page := webPage{origin: string(origin), trust: trustForeign}
	switch {
	case slices.Contains(origins, page.origin):
		page.trust, page.allowOrigin = trustAlways, page.origin
		return page
	case slices.Contains(origins, fleet.AnyOrigin):
		page.trust, page.allowOrigin = trustWithKey, fleet.AnyOrigin
	}
	page.trust = min(page.trust, ownOrigin(h, page.origin))
	return page
}

// ownOrigin returns the trust in a page if it has the origin of the entry. Browsers send Sec-Fetch-Site over TLS, where a
// certificate proves the name, and to this machine; a page cannot set it.
func ownOrigin(h *fasthttp.RequestHeader, origin string) pageTrust {
	if string(fetchSiteHeader.Of(h)) == "same-origin" {
		return trustAlways
	}
	host := string(h.Host())
	switch {
	case !httpguard.IsOriginOf(origin, host):
		return trustForeign
	case httpguard.IsFixedHost(httpguard.HostName(host)):
		return trustAlways
	}
	return trustWithKey
}

// setCORS lets the page read a response, if it may. A later reset of the response removes the headers.
func (p *webPage) setCORS(h *fasthttp.ResponseHeader) {
	if p.allowOrigin == "" {
		return
	}
	h.Set("Access-Control-Allow-Origin", p.allowOrigin)
	h.Set("Access-Control-Expose-Headers", "*")
	h.Set("Vary", "Origin")
}

// refused returns the error for the page, or nil if its request is served.
func (p *webPage) refused(withKey bool) *openai.Error {
	if p.trust == trustAlways || withKey {
		return nil
	}
	return openai.OriginNotAllowed(p.origin)
}

// servePreflight answers the question of a browser whether a page may send a request. It carries no key, and leaves no event. It
// reports whether the request was one.
func (e *Entry) servePreflight(rc *fasthttp.RequestCtx) bool {
	h := &rc.Request.Header
	if !h.IsOptions() || len(originHeader.Of(h)) == 0 || len(h.Peek("Access-Control-Request-Method")) == 0 {
		return false
	}
	t := e.config.Table()
	page := readPage(h, t.Origins())
	if err := e.checkHead(h, t); err != nil {
		e.refuseWithoutEvent(rc, err)
		rc.SetConnectionClose() // a client that sends such a head may have more behind it
		return true
	}
	switch {
	case e.starting():
		e.refuseWithoutEvent(rc, openai.Unavailable(reasons.Starting, time.Second))
		return true
	case page.allowOrigin == "":
		e.refuseWithoutEvent(rc, openai.OriginNotAllowed(page.origin))
		return true
	}
	page.setCORS(&rc.Response.Header)
	answer := &rc.Response.Header
	answer.Set("Access-Control-Allow-Methods", "GET, POST")
	answer.Set("Access-Control-Allow-Headers", "Authorization, Api-Key, X-Api-Key, *") // the wildcard does not include Authorization
	answer.Set("Access-Control-Max-Age", preflightMaxAge)
	if string(h.Peek("Access-Control-Request-Private-Network")) == "true" {
		answer.Set("Access-Control-Allow-Private-Network", "true")
	}
	server.WriteBody(rc, fasthttp.StatusNoContent, "", nil)
	return true
}

// refuseWithoutEvent answers a request that has no id with an error, and counts it.
func (e *Entry) refuseWithoutEvent(rc *fasthttp.RequestCtx, err *openai.Error) {
	e.metrics.Refused(refusalLabel(err))
	server.WriteError(rc, err, "")
}
