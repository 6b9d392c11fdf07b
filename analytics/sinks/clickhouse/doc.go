// Package clickhouse writes events into a table of ClickHouse, over its HTTP interface.
//
// The sink makes the table, and adds the columns that a newer version has; a table that another program has made is left as it is, and an
// error says how it differs. A batch is one block, which the table has as a whole or not at all. A batch that comes again soon is left out by
// its token; any other event that comes again is collapsed with the first one by ReplacingMergeTree, which the word final in a query waits for.
package clickhouse
