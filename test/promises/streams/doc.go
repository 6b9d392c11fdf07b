// Package streams has the end-to-end tests of promise P7, never a false end: a stream that was cut short never looks
// complete to the client. Engines die in mid-stream (engine_cut), misbehave in every way that the simulated engine knows
// (engine_faults), or send what is no HTTP (malformed_response, malformed_ejection, endless_response); clients read
// slowly or not at all (slow_reader). A response gets no end that it does not show, and nothing behind its end is passed on
// (close_delimited). Long and unstreamed answers pass whole (engine_response), also where an entry calls
// its colo directly (direct). In realtime sessions each end learns how the other left (realtime).
package streams
