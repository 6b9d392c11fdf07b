package archtest

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// weights is a directed graph: weights[a][b] is the weight of the edge from a to b. None is negative.
type weights [][]int

func newWeights(n int) weights {
	w := make(weights, n)
	for i := range w {
		w[i] = make([]int, n)
	}
	return w
}

// upward returns the weight of the edges that point from a node to one before it in the order, and of all edges.
func (w weights) upward(order []int) (up, total int) {
	for at, from := range order {
		for i, to := range order {
			total += w[from][to]
			if i < at {
				up += w[from][to]
			}
		}
	}
	return up, total
}

// arrange returns the nodes in an order of little upward weight. The least is a minimum feedback arc set, which is
// NP-hard to find, so this is a heuristic: the greedy order of Eades, Lin and Smyth ("A fast and effective heuristic for
// the feedback arc set problem", Information Processing Letters 47, 1993), then sifting, which moves single nodes to
// their best place for as long as that helps.
func (w weights) arrange() []int {
	order := w.greedy()
	for moved := true; moved; {
		moved = false
		for node := range w {
			if better, ok := w.sift(order, node); ok {
				order, moved = better, true
			}
		}
	}
	return order
}

// greedy takes away one node after the other: sinks to the end of the order, sources to the beginning, and if there is
// neither, the node with the largest surplus of outgoing weight to the beginning.
func (w weights) greedy() []int {
	remaining := make([]int, len(w))
	for i := range remaining {
		remaining[i] = i
	}
	var top, bottom []int
	for len(remaining) > 0 {
		best, bestSurplus, sink := 0, 0, false
		for i, node := range remaining {
			out, in := 0, 0
			for _, other := range remaining {
				out += w[node][other]
				in += w[other][node]
			}
			if sink = out == 0; sink || in == 0 {
				best = i
				break
			}
			if surplus := out - in; i == 0 || surplus > bestSurplus {
				best, bestSurplus = i, surplus
			}
		}
		if sink {
			bottom = append(bottom, remaining[best])
		} else {
			top = append(top, remaining[best])
		}
		remaining = slices.Delete(remaining, best, best+1)
	}
	slices.Reverse(bottom)
	return append(top, bottom...)
}

// sift returns the order with one node where the upward weight is least, and whether that is less than it was.
func (w weights) sift(order []int, node int) ([]int, bool) {
	old := slices.Index(order, node)
	others := slices.Delete(slices.Clone(order), old, old+1)
	cost, best, bestAt, oldCost := 0, 0, 0, 0 // relative to the first place
	for at, other := range others {
		cost += w[node][other] - w[other][node] // the node moves from above to below the other
		if at+1 == old {
			oldCost = cost
		}
		if cost < best {
			best, bestAt = cost, at+1
		}
	}
	return slices.Insert(others, bestAt, node), best < oldCost
}

// On graphs of the size of small packages, the order found is hardly worse than the best of all orders.
func TestArrange(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	found, least := 0, 0
	for range 200 {
		w := newWeights(6)
		for range 12 {
			w[random.IntN(6)][random.IntN(6)] = 1 + random.IntN(5)
		}
		for i := range w {
			w[i][i] = 0
		}
		up, _ := w.upward(w.arrange())
		found += up
		least += w.leastUpward(nil)
	}
	if found > least+least/20 {
		t.Errorf("upward weight %d, at least %d", found, least)
	}
}

// leastUpward tries every order that begins with the one given.
func (w weights) leastUpward(order []int) int {
	if len(order) == len(w) {
		up, _ := w.upward(order)
		return up
	}
	least := -1
	for node := range w {
		if !slices.Contains(order, node) {
			if up := w.leastUpward(append(slices.Clip(order), node)); least < 0 || up < least {
				least = up
			}
		}
	}
	return least
}
