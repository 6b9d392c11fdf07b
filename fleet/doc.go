// Package fleet holds the nouns of a Colonnade fleet and reads them from documents.
//
// A document is YAML or JSON under a key such as pools/llama or endpoints/ams/gpu-7. [Check] says whether one document
// is acceptable on its own; [Documents] keeps the newest good version of each and builds a [Table] of them: immutable,
// resolved, and safe to share. A request takes the table once and uses it to its end.
//
// # Layers
//
// Layering works on trees, not on structs: each document is kept as maps, lists and scalars. Maps merge, lists replace,
// and what is absent comes from the layer below. The merged tree is decoded once into a fresh struct; decoding one
// document over the struct of another would leave stale fields in the elements of lists.
//
//	model     built in < defaults.model < models/…
//	pool      built in < defaults.pool < pools/…; built in for a pool of realtime models only: permits.max_share 0.5
//	endpoint  built in for its engine < defaults.endpoint < defaults.engines.<engine> < its pool's permits.per_endpoint < endpoints/…
//
// Every rule concerns one field by itself, so that layers which are acceptable alone are acceptable together: a change
// of defaults can never make another document bad. References between documents are looked up when they are used and
// reject nothing, since documents arrive in any order.
//
// # Strictness
//
// A misspelt field, a null, a key given twice, an unquoted no, off or 1e3 where a name belongs, or a value that this
// version does not implement makes a document bad as a whole; its last good version stays in force. The error names the
// key, the field, the value and what is accepted. Values of unknown fields, URLs with a password, credentials and key
// hashes are never repeated in an error, because somebody will paste a secret there one day.
//
// # Bounds
//
// A document has at most [MaxDocument] bytes, [MaxDepth] levels and [MaxList] elements in a list or map; texts have at
// most [MaxText] bytes. YAML aliases are refused, so that what a document expands to is bounded by what it holds.
// Memory is a small multiple of the documents kept.
package fleet
