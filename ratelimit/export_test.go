package ratelimit

// Len returns the number of buckets and budgets that are kept.
func (b *Buckets) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.fullAt) + len(b.spent)
}
