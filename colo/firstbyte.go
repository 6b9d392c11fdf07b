package colo

import (
	"errors"
	"time"

	"colonnade/admission"
	"colonnade/forwarding/transport"
	"colonnade/openai"
)

// beginsWithToken reports whether the first byte of the answer is the first token. Only then does the time to it show how busy the engine
// is: an unstreamed answer takes as long as it is, and a stream of the Responses API begins before anything is generated. Engines send the first
// event of a message together with its first token.
func (c *call) beginsWithToken() bool {
	api := c.engineAPI()
	return c.body.Stream && api != openai.Responses && api.GeneratesText()
}

// observeFirstByte reports to the pool how long the answer took to begin.
func (c *call) observeFirstByte(class openai.EngineClass) {
	if class == openai.Relay {
		c.reportFirstByte(c.firstByte.Sub(c.sent), false)
	}
}

// observeNoFirstByte reports to the pool for how long no first byte had come when the client left or the timeout passed.
func (c *call) observeNoFirstByte(err error) {
	after := c.firstByte.Sub(c.sent)
	var failed *transport.ExchangeError
	var unusable *credentialError
	switch {
	case errors.As(err, &unusable):
		return // nothing was sent
	case !errors.As(err, &failed):
		after = max(after-Linger, time.Millisecond) // that long the engine may have taken to close
	case failed.Phase != transport.PhaseFirstByte || !failed.Timeout:
		return
	}
	c.reportFirstByte(after, true)
}

func (c *call) reportFirstByte(took time.Duration, cut bool) {
	c.pool.ObserveFirstByte(c.grant, admission.FirstByte{Work: c.work(), At: c.firstByte, After: took, Censored: cut, Token: c.beginsWithToken()})
}

// work returns the work of an engine before the first byte: of a stream the input, of an unstreamed answer also the output.
func (c *call) work() admission.Work {
	w := admission.Work{Model: c.model.Name, Path: c.request.Route.Path, Streamed: c.body.Stream, Input: len(c.raw)}
	if !c.body.Stream {
		w.Output = c.body.MaxTokens
	}
	return w
}
