package permits

import (
	"time"

	"colonnade/balance"
)

// Known returns what the choice of endpoints goes by of one of them, with at most so many blocks of prompts, the newest first. It looks at a
// few blocks at a time, and releases the mutex meanwhile. An ID that the pool does not have is ignored.
func (p *Pool) Known(id string, blocks int) (k balance.Known) {
	now := p.instant()
	p.withIndex(id, func(at int) { k = p.balancer.Known(now, at) })
	var uses []balance.Use
	for before := -1; before < len(uses) && len(uses) < blocks; {
		before = len(uses)
		p.withIndex(id, func(at int) { uses = p.balancer.RecentUses(at, uses) })
	}
	k.Blocks = balance.EncodeUses(now, uses[:min(len(uses), blocks)])
	return k
}

// AdoptKnown takes over what the pool of another server knew of an endpoint, age ago, where this one knows nothing, and returns how many blocks
// of prompts that were. An ID that the pool does not have is ignored.
func (p *Pool) AdoptKnown(id string, k *balance.Known, age time.Duration) (blocks int) {
	now := p.instant()
	p.withIndex(id, func(at int) { p.balancer.Adopt(now, at, k, age) })
	uses := balance.DecodeUses(now, k.Blocks, age)
	for from := 0; from < len(uses); {
		next := len(uses) // if the endpoint is gone
		p.withIndex(id, func(at int) { next = p.balancer.AdoptUses(now, at, uses, from) })
		from = next
	}
	return len(uses)
}
