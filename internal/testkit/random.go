package testkit

import "math/rand/v2"

// RandomBytes returns n bytes, the same for the same seeds, as a seed of a fuzz target.
func RandomBytes(seed1, seed2 uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed1, seed2))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}
