// Package trust has the end-to-end tests of promise P10, never trusting: nothing that a client sends is taken for internal
// metadata (forged_headers, hop_token, hop_values, header_injection, session_key, accounts), a request between nodes is good once
// (hop_replay), two parsers never read two requests where one was sent (desync, paths, upgrade, forms), nodes and clients are known
// by their certificates (tls, tls_peers), and no prompt, completion or key reaches a log, a metric, an event or another client
// (canary, leaks, foreign_bytes).
package trust
