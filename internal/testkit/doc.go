// Package testkit is what the tests of several packages share: waiting, plain requests, servers that say exactly what
// they are told, our binaries as processes. What the tests of one package need alone stays there.
package testkit
