// Package fallbacks has the end-to-end tests of models that serve requests for others: a request goes on to them when its own model is out of
// capacity or down, and only to those that its account may use (models); it is one request for its client, its limits and its events,
// and its client gets one refusal if all are full (all_full).
package fallbacks
