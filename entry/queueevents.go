package entry

import (
	"time"

	"colonnade/analytics"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/reasons"
)

// readQueueEvents reads the header x-colonnade-queue-events. Queue events are part of an event stream, so the request must ask for one.
func (c *call) readQueueEvents() (bool, *openai.Error) {
	switch name, value := queueEventsHeader, c.header(queueEventsHeader); {
	case value == "":
		return false, nil
	case value != "1":
		return false, openai.InvalidRequest("", "the header %s is %.40q: it must be 1, or left out", name, value)
	case c.route.API == openai.Realtime:
		return false, openai.InvalidRequest("", "the header %s is for streamed requests: a realtime session waits in its handshake; leave the header out", name)
	case !c.route.API.QueueEvents():
		return false, openai.InvalidRequest("", "the header %s is for streams of events, which have comments; an answer in lines of JSON has none: leave the header out", name)
	case !c.body.Stream:
		return false, openai.InvalidRequest("stream", "the header %s is for streamed requests: ask for a stream (\"stream\": true), or leave the header out", name)
	}
	return true, nil
}

// beginQueueEvents begins the answer at once. Colos are tried while the answer is being written.
func (c *call) beginQueueEvents() {
	c.queueEvents = &relay.QueueEventStream{
		Relay: c.newRelay(), Route: c.route, Cancel: c.Cancel, Resolve: c.resolveStream,
		OnPanic: func(panicked, stack string) *openai.Error {
			c.crashed(panicked, stack)
			return c.logRefused(openai.Internal())
		},
	}
	set := server.SetIn(&c.rc.Response.Header)
	server.EachRequestID(c.route.Dialect, c.id, set) // the other headers are not known yet
	c.limits.eachHeader(set)
	relay.WriteQueueEvents(c.rc, c.queueEvents)
}

// resolveStream is the rest of infer for an answer that has begun. It returns the stream to relay, or the error for the client, or
// neither if the client has gone.
func (c *call) resolveStream() (*transport.Response, *openai.Error) {
	switch answer := c.tryColos(); {
	case answer != nil && answer.Response.Stream() != nil:
		answer.RelayBy(c.queueEvents.Relay)
		return answer.Response, nil
	case answer != nil:
		return nil, c.notStreamed(answer)
	case c.Context.Err() == nil:
		return nil, c.logRefused(c.clientError())
	case c.clientGone():
		c.logCancelled(analytics.OutcomeClientGone)
		return nil, nil
	}
	c.logCancelled(analytics.OutcomeDrained)
	return nil, openai.Unavailable(reasons.Draining, time.Second)
}

// logRefused logs a refusal, as refuse does, and returns it.
func (c *call) logRefused(e *openai.Error) *openai.Error {
	c.logRefusal(e)
	return e
}

// notStreamed returns the error for an answer that is not a stream: the engine's own error about the request. Any other answer could
// not be read by a client that is reading events.
func (c *call) notStreamed(answer *peer.Answer) *openai.Error {
	defer answer.Close()
	if openai.ClassifyStatus(answer.Response.Status()) != openai.ClientError {
		return c.logRefused(openai.EngineFailed(reasons.NotAStream))
	}
	body, _ := answer.Response.Body()
	c.logWhole(answer.Response)
	return openai.ParseClientError(answer.Response.Status(), body)
}
