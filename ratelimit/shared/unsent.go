package shared

import "colonnade/ratelimit"

// adjustment is what Redis has to learn about one limit: a demand that is taken in any case.
type adjustment struct {
	ratelimit.Demand
	merge bool // it was taken from the node's share: the common bucket becomes empty by it at most
}

// unsent holds adjustments until they are sent, one for each limit and kind.
type unsent map[unsentKey]*adjustment

type unsentKey struct {
	key   string
	merge bool
}

func (u unsent) add(d *ratelimit.Demand, merge bool) {
	if d.Amount == 0 {
		return
	}
	merge = merge && !d.IsBudget()
	key := unsentKey{d.Key, merge}
	if a := u[key]; a != nil {
		a.Amount += d.Amount
		return
	}
	u[key] = &adjustment{*d, merge}
}

// takeOf removes and returns the adjustments of the limits of which something is demanded.
func (u unsent) takeOf(demands []ratelimit.Demand) (taken []adjustment) {
	for i := range demands {
		for _, merge := range [...]bool{true, false} {
			key := unsentKey{demands[i].Key, merge}
			if a := u[key]; a != nil {
				delete(u, key)
				taken = append(taken, *a)
			}
		}
	}
	return taken
}

// take removes and returns some adjustments.
func (u unsent) take(most int) (taken []adjustment) {
	for key, a := range u {
		if len(taken) == most {
			break
		}
		delete(u, key)
		taken = append(taken, *a)
	}
	return taken
}
