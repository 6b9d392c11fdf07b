// Package oracle looks at a fleet after a test and says what is not as it was: permits held, waiters, goroutines, file
// descriptors, memory, engines at work, events without an end, a health page that was slow.
//
// A test makes one before it sends anything and checks it when it is done:
//
//	o := oracle.New(t, oracle.Config{AdminURLs: fleet.AdminURLs(), EventDirs: []string{dir}})
//	…
//	o.Check(t)
//
// Check gives the fleet two seconds to come to rest, and a health page 100 ms; ten times that where the machine is busy
// with other tests, which is always but when COLONNADE_SOAK is set. A health page then also has twice as long as a bare
// server takes beside it.
package oracle
