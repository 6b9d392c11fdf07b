package testkit

import "math/rand/v2"

// RandomBytes is so many bytes, the same for the same seeds: what a fuzz target begins with.
func RandomBytes(seed1, seed2 uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed1, seed2))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}
