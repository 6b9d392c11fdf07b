// Package capture writes the requests and responses of one account, with their content, to a sink of its own for a while. It is for
// debugging, and nothing else keeps content: a document captures/<name> starts it, and its time ends it, by the clock of the node alone.
//
// A [Recorder] follows the documents, and has a session for each capture in force. Of a request of its account, [Recorder.Begin] returns a
// [Record], which takes copies of what passes and gives them to the session's queue at its end. The session's goroutine writes them. A
// request never waits for it: what does not fit into the queue, or into the memory of all records, is left out and counted. While there is
// no capture, Begin is one atomic load.
//
//	documents → Recorder.Run → session.run → sink
//	request → Recorder.Begin → Record → queue ↗
//
// A session ends when its time is over, its document is gone or changed, or the node stops. Then its open records end too, with what they
// have, and what is not written within a few seconds is dropped.
package capture
