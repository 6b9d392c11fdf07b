// Package paths has the end-to-end tests of the promise that each path of a self-hosted engine is served as chat is: under a permit that is
// released exactly once, billed by what the engine counts, cancelled with its client, refused in the words of its own API, and never complete
// where the engine's answer is not. The engines play the kinds that have the paths.
package paths
