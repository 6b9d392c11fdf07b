// Package columns describes events as rows of a table: which columns there are, of which types, and since which version. The stores
// that have tables of events (PostgreSQL, Parquet) take them from here, so that all have the same.
//
// The columns are the fields of [analytics.Event], in their order and by their names in JSON. A field that is absent from the JSON of an
// event is NULL, but flags are false and lists are empty. The three columns of [Key] tell two events apart: an event that was delivered
// twice has them twice.
package columns
