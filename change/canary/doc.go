// Package canary decides whether a change of documents has made a node worse, by what the node itself has counted.
//
// # The rule
//
// A figure is the share of finished requests that were refused, that failed, or whose clients gave up. A figure has risen if, of at least 20
// requests since the change, its share is more than two percentage points above both that of the same node before and that of its peers
// meanwhile, it is of at least two requests, and chance alone would do so less than once in 1000 times, or in 100 times compared with a
// reference of fewer than 200 requests: one-sided, by Fisher's exact test, which also holds for few requests. A reference of fewer than 20
// requests does not count. If neither counts, the share must be above two percentage points, of at least five requests. Nodes that are judged
// side by side share the chance of a false alarm.
//
// A node is judged only if a rise of ten percentage points would be found with the requests at hand. Else that nothing has risen says nothing.
//
// Both references are needed. A fault of an engine or a network hits all nodes at once and is not the fault of the change, and a node that was
// worse than its peers before need not become like them. Requests that arrive together are not independent, and the rule is applied each few
// seconds, so the chance of a false alarm is higher than that of one test. A false alarm takes back a change that can be tried again; a change
// that is bad and goes to all nodes is worse, so few requests are judged less strictly.
//
// The counts come from the page /metrics of a node. Nothing here waits or has a clock.
package canary
