// Package server is fasthttp made strict: limits on size, time and connections, TLS, our errors instead of plain texts, and an
// end that harms no client.
//
// A request's head must arrive within ten seconds. Its body must make progress ([Request.ReadBody]): 8 KiB or its end in every
// ten seconds. Memory grows with what has arrived, whatever was announced, and all bodies that are being read have one bound
// together. No body is read before the head has shown who sends it ([Config]). A request that is answered before its
// body was read is its connection's last; the connection then closes in two steps, so that the answer gets through.
//
// [Watcher] ends a request's context as soon as its client has gone, also while the request is queued or its engine is silent.
// [Inflight] is the set of requests between a handler's start and the end of the answer, which for a stream comes after the
// handler has returned.
package server
