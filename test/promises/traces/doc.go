// Package traces has the end-to-end tests of the spans of requests: which there are, under which parents, with which attributes, on every way
// that a request takes through a fleet; and that a collector which is away or slow delays nothing.
package traces
