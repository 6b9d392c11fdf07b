// Package serve has the end-to-end tests of one process that serves one colo, as `colonnade serve` runs it: what holds of it beside
// what holds of every fleet. The tests of the other folders run against such a process with COLONNADE_SERVE=1 (make test-serve), but for those
// that need several nodes.
//
//   - A request needs one connection to the process, and one from it to an engine (connections).
//   - P1, P2, P5, P7 and P8 when the process is killed under load, drains or gets SIGHUP (process), when its disk is full (full_disk), and when
//     an engine dies and returns (engine_lost).
//   - P9, never led astray: no request fails while documents change, and a bad file changes nothing (documents).
//   - A model, an account and a realtime session are served as by a fleet, with the same events (requests).
package serve
