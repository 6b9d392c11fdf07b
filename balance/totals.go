package balance

// totals are sums over the endpoints, kept up to date so that a choice need not add them up.
type totals struct {
	load int // of the endpoints that are up
	size int // of the same, see endpoint.size
	open int // endpoints with a free slot
}

// count adds an endpoint n times; n is 1, or -1 before a change of the endpoint.
func (t *totals) count(e *endpoint, n int) {
	if e.Up {
		t.load += n * e.Load
		t.size += n * e.size()
	}
	if e.Free > 0 {
		t.open += n
	}
}

// size is the part of the load that an endpoint should have, relative to that of others.
func (e *endpoint) size() int { return e.Slots * e.Weight }

// bound is the most load that an endpoint may have: factor times its share of the load of all, with the request to be placed. It is
// kept as two factors of a fraction, which are exact where a quotient would not be.
type bound struct{ load, size float64 }

// bound returns the bound of the endpoints that are up, for the factor of the configuration.
func (b *Balancer) bound() bound {
	return bound{load: max(b.config.LoadFactor, 1) * float64(b.totals.load+1), size: float64(b.totals.size)}
}

// admits reports whether an endpoint of this size is within its bound with one more request. The bound is rounded up, so an endpoint
// with a load below it has room for one.
func (b bound) admits(load, size float64) bool { return load*b.size < b.load*size }

// within reports whether an endpoint is within its bound with one more request, and with so many less than it has.
func (e *endpoint) within(b bound, less int) bool {
	return b.admits(float64(e.Load-less), float64(e.size()))
}
