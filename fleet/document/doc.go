// Package document reads the documents that describe a fleet.
//
// A document is YAML or JSON under a key such as pools/llama or endpoints/ams/gpu-7. [Check] says whether one document is
// acceptable by itself; [Set] keeps the newest good version of each and builds a [fleet.Table] of them. [SplitFile] and
// [JoinFile] read and write files of documents. [Schema] describes documents to editors.
//
// # Layers
//
// Layering works on trees, not on structs: each document is kept as maps, lists and scalars. Maps are merged, lists
// replace, and an absent field comes from the layer below. The merged tree is decoded once into a fresh struct; decoding
// one document over the struct of another would leave stale fields in the elements of lists.
//
//	model     built in < defaults.model < models/…
//	pool      built in < defaults.pool < pools/…; built in for a pool of realtime models only: permits.max_share 0.5
//	endpoint  built in < built in for its engine < defaults.endpoint < defaults.engines.<engine> < permits.per_endpoint of its pool < endpoints/…
//
// Each rule concerns one field by itself, so that layers which are acceptable alone are acceptable together: a change of
// defaults never makes another document bad. References between documents reject none, since documents arrive in any
// order.
//
// # Strictness
//
// A misspelt or unsupported field, a null, a key given twice, or an unquoted no, off or 1e3 where a name belongs makes a
// document bad as a whole; its last good version stays in force. The error names the key, the field, the value and what is
// accepted. Errors never repeat values of unknown fields, URLs with a password, credentials, key hashes, or text that looks
// like an API key: a secret that was pasted into the wrong place must not reach a log.
//
// # Bounds
//
// A document has at most [MaxSize] bytes, [MaxDepth] levels and [MaxList] elements in a list or map; texts have at most
// [MaxText] bytes. YAML aliases are refused, so that a document does not expand. Memory is a small multiple of the
// documents kept.
package document
