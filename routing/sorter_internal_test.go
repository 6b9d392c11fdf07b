package routing

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSorter(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var s sorter
	for _, n := range []int{0, 1, 2, fewKeys, fewKeys + 1, 300, 5000} {
		for name, next := range map[string]func(i int) key{
			"spread":      func(int) key { return key(random.Uint64()) },
			"equal":       func(int) key { return 7 },
			"few values":  func(int) key { return key(random.IntN(3)) << 40 },
			"rising":      func(i int) key { return key(i) },
			"falling":     func(i int) key { return key(-i) },
			"one outlier": func(i int) key { return key(random.IntN(1000)) | key(i/max(n-1, 1))<<63 },
			"exponential": func(int) key { return key(1) << random.IntN(64) },
		} {
			keys := make([]key, n)
			for i := range keys {
				keys[i] = next(i)
			}
			want := slices.Sorted(slices.Values(keys))
			if got := s.sort(keys); !slices.Equal(got, want) {
				t.Errorf("%d keys, %s: not sorted", n, name)
			}
		}
	}
}
