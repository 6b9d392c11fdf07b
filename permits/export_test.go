package permits

// MaxDeclined is maxDeclined, for tests.
const MaxDeclined = maxDeclined

// BarredLists is how many lists of endpoints that requests must not get are kept.
func (p *Pool) BarredLists() int { return len(p.barred.excluded) }
