// Package httpguard refuses requests that two HTTP parsers could read in two ways. [CheckHead] checks a request's head as it
// stood on the wire; [Framing] follows every byte of a connection below a server whose own parser is lenient.
// It is pure, and fuzzed against net/http.
package httpguard
