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
