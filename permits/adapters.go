package permits

// SetAdapters says which adapters the engine of an endpoint has, by its list or its document; complete says that it has no others. An ID
// that the pool does not have is ignored.
func (p *Pool) SetAdapters(id string, names []string, complete bool) {
	p.withIndex(id, func(at int) { p.balancer.SetAdapters(at, names, complete) })
}

// UseAdapters says which adapters the engine of an endpoint has in use.
func (p *Pool) UseAdapters(id string, names []string) {
	p.withIndex(id, func(at int) { p.balancer.UseAdapters(at, names) })
}

// ForgetAdapters says that the engine of an endpoint has been out or restarted, and has nothing in its memory any more.
func (p *Pool) ForgetAdapters(id string) {
	p.withIndex(id, func(at int) { p.balancer.ForgetAdapters(at) })
}

// withIndex calls f with the index of an endpoint, under the mutex, if the pool has it.
func (p *Pool) withIndex(id string, f func(at int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.endpoints[id]; e != nil && e.index != noIndex {
		f(e.index)
	}
}
