// Package sinks reads what operators say about sinks of events: a URL, whose query has the settings, or the fields of a document with the
// same names. It has the list of all schemes, also of those that only `colonnade ship` can open, so that every program can tell what is
// wrong with a sink. Packages light and heavy open sinks.
package sinks
