package balance

// choosePicked returns the endpoint that Config.Pick picks.
func (b *Balancer) choosePicked(r *Request, barred []bool) Choice {
	var open []int
	var ids []string
	for at := range b.endpoints {
		if b.open(at, barred) {
			open, ids = append(open, at), append(ids, b.endpoints[at].ID)
		}
	}
	if len(open) == 0 {
		return Choice{At: None, Prefers: None}
	}
	return Choice{At: open[b.config.Pick(ids, r)], Prefers: None, Why: Scored}
}
