package balance

// BytesOfUse is bytesOfUse, for tests.
const BytesOfUse = bytesOfUse

// Matched returns how many of the first blocks of a prompt some of the endpoints have, and the least loaded of those that have so many.
func (b *Balancer) Matched(now Instant, blocks []uint64, among []bool) (matched, at int) {
	return b.longest(now, blocks, 0, func(_ *Balancer, at int) bool { return among[at] })
}

// Uses returns how many uses the index has.
func (b *Balancer) Uses() (n int) {
	for i := range b.endpoints {
		n += b.endpoints[i].cached.count
	}
	return n
}

// Forgotten returns how many uses are forgotten and not yet removed.
func (b *Balancer) Forgotten() (n int) {
	for i := b.index.gone; i != none; i = b.index.uses[i].older {
		n++
	}
	return n
}

// CheckIndex reports whether the lists of the index and its memory agree. It removes what is forgotten.
func (b *Balancer) CheckIndex() bool {
	b.index.sweep(len(b.index.uses))
	x, listed, free, linked := b.index, 0, 0, 0
	for hash, i := range x.blocks {
		for ; i != none; i = x.uses[i].next {
			listed++
			if j := x.uses[i].next; j != none && x.uses[j].before != i || x.find(hash, x.uses[i].owner) != i {
				return false
			}
			if x.uses[i].hash != hash || b.endpoints[x.uses[i].owner.at].learned != x.uses[i].owner {
				return false
			}
		}
	}
	for i := x.free; i != none; i = x.uses[i].next {
		free++
	}
	for at := range b.endpoints {
		c, before, bytes := &b.endpoints[at].cached, none, int64(0)
		for i := c.oldest; i != none; before, i = i, x.uses[i].newer {
			linked++
			bytes += int64(bytesOf(int(x.uses[i].depth)+1) - bytesOf(int(x.uses[i].depth)))
			if x.uses[i].older != before || before != none && x.uses[before].used > x.uses[i].used {
				return false
			}
		}
		if c.newest != before || c.bytes != bytes {
			return false
		}
	}
	return listed == b.Uses() && listed == x.count && listed == len(x.owned) && linked == listed && listed+free == len(x.uses)
}
