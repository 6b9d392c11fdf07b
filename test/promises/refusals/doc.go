// Package refusals has the end-to-end tests of two promises.
//
//   - P5, never vague: a refusal comes at once, names its reason in a machine-readable form, and says when to come back:
//     for every reason once (reasons), full colos (all_colos_full), limits of size, time and number (limits,
//     account_limit, costly_input, slow_upload, unread_body), sessions (session_refused), clients that watch the queue
//     (queue_events), and a process without file descriptors (file_descriptors).
//   - P6, never doubled: no request is sent again after the engine's first byte, and failures before it cost retries from
//     a budget (retry); an engine that fails is taken out, and nothing else is (endpoint_health).
package refusals
