// Package durability has the end-to-end tests of two promises.
//
//   - P8, never forgotten: every admitted request yields exactly one final event at each node that carried it, with what
//     it used, also when its client left or its engine failed (usage, usage_partial).
//   - P9, never led astray: without etcd, requests are still served from the last good state; a bad document changes
//     nothing, and a good one comes into force everywhere without a failed request (store_loss, start_without_store,
//     document_change, random_changes).
package durability
