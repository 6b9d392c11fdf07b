package entry

import (
	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/server"
)

// The headers that each request is searched for.
var (
	requestIDHeader     = server.NewHeaderName(hop.HeaderRequestID)
	modelHeader         = server.NewHeaderName(hop.HeaderModel)
	queueHeader         = server.NewHeaderName(hop.HeaderQueue)
	queueEventsHeader   = server.NewHeaderName(hop.HeaderQueueEvents)
	priorityHeader      = server.NewHeaderName(hop.HeaderPriority)
	fallbackHeader      = server.NewHeaderName(hop.HeaderFallback)
	forceColoHeader     = server.NewHeaderName(hop.HeaderForceColo)
	traceParentHeader   = server.NewHeaderName(hop.HeaderTraceParent)
	affinityHeader      = server.NewHeaderName(hop.HeaderSessionAffinity)
	anthropicHeader     = server.NewHeaderName("anthropic-version")
	originHeader        = server.NewHeaderName(fasthttp.HeaderOrigin)
	fetchSiteHeader     = server.NewHeaderName("Sec-Fetch-Site")
	authorizationHeader = server.NewHeaderName(fasthttp.HeaderAuthorization)
)

// The headers that answers have.
var (
	attemptsHeader       = server.NewHeaderName(hop.HeaderAttempts)
	endpointReasonHeader = server.NewHeaderName(hop.HeaderEndpointReason)
	coloHeader           = server.NewHeaderName(hop.HeaderColo)
	coloPathHeader       = server.NewHeaderName(hop.HeaderColoPath)
	queuedHeader         = server.NewHeaderName(hop.HeaderQueuedMS)
)

// limitHeaders are the headers of an answer that say how much is left of one kind of limit, by the names that OpenAI has given them.
type limitHeaders struct{ limit, remaining, reset server.HeaderName }

var (
	requestLimitHeaders = limitHeaders{
		server.NewHeaderName(hop.HeaderLimitRequests), server.NewHeaderName(hop.HeaderRemainingRequests), server.NewHeaderName(hop.HeaderResetRequests),
	}
	tokenLimitHeaders = limitHeaders{
		server.NewHeaderName(hop.HeaderLimitTokens), server.NewHeaderName(hop.HeaderRemainingTokens), server.NewHeaderName(hop.HeaderResetTokens),
	}
)

// forwardedHeaders are the headers that each engine gets, by their names in package hop.
var forwardedHeaders = func() map[string]server.HeaderName {
	all := map[string]server.HeaderName{}
	for _, name := range hop.ForwardedHeaders() {
		all[name] = server.NewHeaderName(name)
	}
	return all
}()

// header returns a copy of a request header.
func (c *call) header(name server.HeaderName) string { return string(name.Of(&c.rc.Request.Header)) }

// forwardedHeader returns a copy of a request header that engines get.
func (c *call) forwardedHeader(name string) string {
	if name == fasthttp.HeaderContentType {
		return c.contentType()
	}
	if known, is := forwardedHeaders[name]; is {
		return c.header(known)
	}
	return string(c.rc.Request.Header.Peek(name))
}

// contentType returns the request's content type; that of nearly all requests is no copy.
func (c *call) contentType() string {
	const usual = "application/json"
	if sent := c.rc.Request.Header.ContentType(); string(sent) != usual {
		return string(sent)
	}
	return usual
}
