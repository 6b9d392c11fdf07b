// Package fleet holds the nouns of a Colonnade fleet, such as [Model], [Pool] and [Endpoint], and the [Table] of all of
// them: immutable, resolved, and safe for concurrent use. A request takes the table once and uses it to its end.
//
// The fields of nouns have tags with their rules, and comments for the operators who write them: package document reads
// documents by the tags, and makes the JSON Schema and the reference page from both. It also has the syntax of documents,
// layers and defaults; the nouns in a table are resolved.
//
// References between nouns are looked up when they are used, since documents arrive in any order; [Table.Dangling] lists
// those that lead nowhere.
package fleet
