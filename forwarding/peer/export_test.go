package peer

import (
	"context"
	"time"
)

// AskWithin makes answers to questions count only for a time.
func (c *Client) AskWithin(d time.Duration) *Client {
	c.askWithin = d
	return c
}

// RefusedEverywhere is refusedEverywhere.
func RefusedEverywhere(ctx context.Context, address string) bool {
	return refusedEverywhere(ctx, address)
}

// NewAnswer returns an answer of a server that took so long of an exchange.
func NewAnswer(took, elapsed time.Duration) *Answer {
	return &Answer{Took: took, HasTook: true, elapsed: elapsed}
}

// MaxHead is maxHead.
const MaxHead = maxHead
