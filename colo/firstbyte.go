package colo

import (
	"errors"
	"time"

	"colonnade/admission"
	"colonnade/forwarding"
	"colonnade/openai"
)

// timesFirstToken says whether the first byte of the answer is the first token: only then does it show how busy the engine
// is. An unstreamed answer takes as long as it is, a stream of responses begins before anything is generated, and of other
// kinds nobody knows.
func (c *call) timesFirstToken() bool {
	return c.grant.Endpoint.Auto != nil && c.body.Stream && (c.route.API == openai.Chat || c.route.API == openai.Completions)
}

// tellFirstByte tells the pool how long an answer took to begin.
func (c *call) tellFirstByte(class openai.EngineClass) {
	if class == openai.Relay && c.timesFirstToken() {
		c.pool.FirstByte(c.grant, admission.FirstByte{After: c.firstByte.Sub(c.sent), Input: len(c.raw)})
	}
}

// tellCut tells the pool how long nothing came of an answer until the client left, or nobody wanted to wait any longer.
func (c *call) tellCut(err error) {
	if !c.timesFirstToken() {
		return
	}
	after := c.firstByte.Sub(c.sent)
	var failed *forwarding.ExchangeError
	switch {
	case !errors.As(err, &failed):
		after = max(after-Linger, time.Millisecond) // the engine may have taken so long to let go
	case failed.Phase != forwarding.PhaseFirstByte || !failed.Timeout:
		return
	}
	c.pool.FirstByte(c.grant, admission.FirstByte{After: after, Input: len(c.raw), Cut: true})
}
