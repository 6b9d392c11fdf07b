// Package reload keeps values that are read from files, and reads the files again when they have changed: see [Files]. A
// version that cannot be read or parsed changes nothing: the last good one stays in force, and the log reports the error once.
// A stalled disk delays at most one caller, by a quarter of a second. [Dir] confines reads to one directory.
package reload
