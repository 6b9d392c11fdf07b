package testkit

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Seed is where a test's random changes come from. It is logged, and COLONNADE_SEED repeats it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("COLONNADE_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("COLONNADE_SEED=%d", seed)
	return seed
}
