package entry

import (
	"time"

	"colonnade/analytics"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/reasons"
)

// readEvents reads whether the client wants to know how its request waits. It gets a stream of events for that, so it
// must have asked for one.
func (c *call) readEvents() (bool, *openai.Error) {
	const name = hop.HeaderQueueEvents
	switch value := c.header(name); {
	case value == "":
		return false, nil
	case value != "1":
		return false, openai.InvalidRequest("", "the header %s is %.40q: it must be 1, or left out", name, value)
	case c.route.API == openai.Realtime:
		return false, openai.InvalidRequest("", "the header %s is for streamed requests: a realtime session waits in its handshake; leave the header out", name)
	case !c.body.Stream:
		return false, openai.InvalidRequest("stream", "the header %s is for streamed requests: ask for a stream (\"stream\": true), or leave the header out", name)
	}
	return true, nil
}

// announce begins the answer at once. What is left to do for it is done while it is written.
func (c *call) announce() {
	c.prelude = &relay.QueueEventStream{
		Relay: c.newRelay(), API: c.route.API, Cancel: c.Cancel, Resolve: c.seek,
		OnPanic: func(panicked, stack string) *openai.Error {
			c.noteCrash(panicked, stack)
			return c.declined(openai.Internal())
		},
	}
	c.rc.Response.Header.Set(hop.HeaderRequestID, c.id) // of the others nothing is known yet
	relay.WriteQueueEvents(c.rc, c.prelude)
}

// seek is the rest of infer for an answer that has begun: it returns one that is a stream, or what the client is told
// instead; nothing if it has left.
func (c *call) seek() (*transport.Response, *openai.Error) {
	switch answer := c.tryColos(); {
	case answer != nil && answer.Response.Stream() != nil:
		c.prelude.OnChunk = answer.OnChunk
		return answer.Response, nil
	case answer != nil:
		return nil, c.notStreamed(answer)
	case c.Context.Err() == nil:
		return nil, c.declined(c.tries.outcome())
	case c.hasLeft():
		c.logGone(analytics.OutcomeClientGone)
		return nil, nil
	}
	c.logGone(analytics.OutcomeDrained)
	return nil, openai.Unavailable(reasons.Draining, time.Second)
}

// declined takes note of a refusal, as refuse does.
func (c *call) declined(e *openai.Error) *openai.Error {
	c.logRefusal(e)
	return e
}

// notStreamed is what is told of an answer that is no stream: what the engine has against the request, in its own
// words. Any other is none that the client could read.
func (c *call) notStreamed(answer *peer.Answer) *openai.Error {
	defer answer.Close()
	if openai.ClassifyStatus(answer.Response.Status()) != openai.ClientError {
		return c.declined(openai.EngineFailed(reasons.NotAStream))
	}
	body, _ := answer.Response.Body()
	c.logWhole(answer.Response)
	return openai.ToldError(answer.Response.Status(), body)
}
