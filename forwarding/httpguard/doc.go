// Package httpguard refuses HTTP/1.1 requests that two parsers could read differently, which is what request smuggling needs.
// [CheckHead] checks the head of a request as it was on the wire. [Framing] follows every byte of a connection below a server
// whose parser is lenient. Both are pure functions of bytes, fuzzed against net/http.
package httpguard
