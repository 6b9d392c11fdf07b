// Package testkit has helpers for the tests of several packages: waiting, plain requests, servers for raw connections, and
// our binaries as processes. A helper that one package needs stays in that package.
package testkit
