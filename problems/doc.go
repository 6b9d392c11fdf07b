// Package problems has the one list of what is wrong in a fleet: each problem says what is wrong, what that does to clients, and what to do
// about it. The commands, the pages and the metric colonnade_problems of a node all show it.
//
// The package is pure: [OfTable] finds what the documents alone make impossible. A node adds what only it knows, and a command what only the
// whole fleet shows, by a [List]. The kinds, with their effects and actions, stand in package reasons.
package problems
