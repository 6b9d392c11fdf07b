// Package oracle checks a fleet after a test for anything left over: held permits, waiting requests, goroutines, file
// descriptors, memory, busy engines, events without an end; and for health pages that were slow.
//
// A test creates an oracle before its first request, and checks it at its end:
//
//	o := oracle.New(t, oracle.Config{AdminURLs: fleet.AdminURLs(), EventDirs: []string{dir}})
//	…
//	o.Check(t)
//
// Check gives the fleet two seconds to come to rest, and each health page 100 ms. Unless COLONNADE_SOAK is set, other tests
// keep the machine busy: then both have ten times as long, and a health page also has twice the time of a reference server
// that does nothing else.
package oracle
