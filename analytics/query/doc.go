// Package query looks up events: [Filter] selects them, [Page] serves those of a node on its admin listener, and [Nodes] reads the events of
// many nodes from there, merged by time.
//
// A filter works on the JSON of an event as it stands in a segment, so that a node searches a gigabyte in a second or two without decoding
// events that are not wanted. That is exact: a quote inside a JSON string is escaped, so the bytes "account":"acme" stand in an event only if
// that is its account.
package query
