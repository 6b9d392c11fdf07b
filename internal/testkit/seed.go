package testkit

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Seed returns the seed of a test's random changes, and logs it. COLONNADE_SEED sets it, to repeat a run.
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
