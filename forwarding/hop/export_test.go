package hop

// Issuers returns how many issuers the guard knows.
func (g *ReplayGuard) Issuers() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.windows)
}
