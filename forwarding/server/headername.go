package server

import (
	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
)

// HeaderName is the name of a header, ready for use with fasthttp, which changes the letters of a name that it gets as a string at each use.
type HeaderName struct {
	name      string
	canonical []byte
}

// NewHeaderName returns the name of a header; its letters may be of any case.
func NewHeaderName(name string) HeaderName {
	return HeaderName{name: name, canonical: fasthttp.AppendNormalizedHeaderKey(nil, name)}
}

// String returns the name as NewHeaderName got it.
func (n HeaderName) String() string { return n.name }

// Of returns the value that the header has in a request, or nothing. It is valid as long as the request.
func (n HeaderName) Of(h *fasthttp.RequestHeader) []byte { return h.PeekCanonical(n.canonical) }

// Set sets the header of a response.
func (n HeaderName) Set(h *fasthttp.ResponseHeader, value string) {
	h.SetCanonical(n.canonical, []byte(value))
}

// SetIn returns a function that sets headers of a response.
func SetIn(h *fasthttp.ResponseHeader) func(name HeaderName, value string) {
	return func(name HeaderName, value string) { name.Set(h, value) }
}

var (
	expectHeader      = NewHeaderName(fasthttp.HeaderExpect)
	requestIDHeader   = NewHeaderName(hop.HeaderRequestID)
	anthropicIDHeader = NewHeaderName(hop.HeaderAnthropicID)
)
