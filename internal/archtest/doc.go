// Package archtest has no code but its tests: they keep the tree as it was drawn. Arrows between packages go down only,
// each third-party module stays where it belongs, and what is scarce by intent (interfaces, long main functions) stays
// scarce. Test code may import what it likes.
//
// A new package gets a row in the table of table_test.go, with the reason for what it may import.
package archtest
