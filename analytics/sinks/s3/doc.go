// Package s3 writes events as Parquet files to a store that speaks the protocol of S3.
//
// The events of a batch are in one file for each hour that they are of, below PREFIX/date=2026-11-23/hour=09/. The name of a file is the
// node, the position of the batch in its journal, and the id of its first event. A batch that comes again overwrites its files; if it has become another batch
// since, for its settings have changed, its events may be in two files, and readers remove them by event_id and phase.
package s3
