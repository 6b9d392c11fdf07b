// Package postgres writes events into a table of PostgreSQL, or of a store that speaks its protocol.
//
// The sink makes the table, and adds the columns that a newer version has; a table that another program has made is left as it is, and an
// error says how it differs. A batch is copied into a temporary table, and from there into the table, without the events that are there
// already, in one transaction: a batch that comes again changes nothing. Where TimescaleDB is installed, a table that the sink makes is a
// hypertable.
package postgres
