package permits

import "colonnade/balance"

// choices counts grants by the policy in force and the reason of the choice.
type choices []uint64

func newChoices() choices { return make(choices, len(balance.Policies())*len(balance.Whys())) }

func (c choices) count(p balance.Policy, w balance.Why) { c[int(p)*len(balance.Whys())+int(w)]++ }

// stats returns the counts that are not 0, by the name of the policy and of the reason.
func (c choices) stats() map[string]map[string]uint64 {
	all := map[string]map[string]uint64{}
	reasons := balance.Whys()
	for i, n := range c {
		if n == 0 {
			continue
		}
		policy := balance.Policies()[i/len(reasons)]
		if all[policy] == nil {
			all[policy] = map[string]uint64{}
		}
		all[policy][reasons[i%len(reasons)]] = n
	}
	return all
}
