package colo

import (
	"errors"
	"time"

	"colonnade/admission"
	"colonnade/forwarding/transport"
	"colonnade/openai"
)

// beginsWithToken says whether the first byte of the answer is the first token: only then does it show how busy the
// engine is. An unstreamed answer takes as long as it is, a stream of responses begins before anything is generated, and
// of other kinds nobody knows.
func (c *call) beginsWithToken() bool {
	return c.body.Stream && (c.route.API == openai.Chat || c.route.API == openai.Completions)
}

// tellFirstByte tells the pool how long an answer took to begin.
func (c *call) tellFirstByte(class openai.EngineClass) {
	if class == openai.Relay {
		c.firstByteAfter(c.firstByte.Sub(c.sent), false)
	}
}

// tellCut tells the pool how long nothing came of an answer until the client left, or nobody wanted to wait any longer.
func (c *call) tellCut(err error) {
	after := c.firstByte.Sub(c.sent)
	var failed *transport.ExchangeError
	switch {
	case !errors.As(err, &failed):
		after = max(after-Linger, time.Millisecond) // the engine may have taken so long to let go
	case failed.Phase != transport.PhaseFirstByte || !failed.Timeout:
		return
	}
	c.firstByteAfter(after, true)
}

func (c *call) firstByteAfter(took time.Duration, cut bool) {
	c.pool.ObserveFirstByte(c.grant, admission.FirstByte{Work: c.work(), After: took, Censored: cut, Token: c.beginsWithToken()})
}

// work is what the request asks of an engine before the first byte. Of a stream that is its input; of an answer as a
// whole, also what is generated.
func (c *call) work() admission.Work {
	w := admission.Work{Model: c.model.Name, Path: c.route.Path, Streamed: c.body.Stream, Input: len(c.raw)}
	if !c.body.Stream {
		w.Output = c.body.MaxTokens
	}
	return w
}
