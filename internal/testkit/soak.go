package testkit

import "os"

// Soak reports whether tests run in full length and check exact bounds (COLONNADE_SOAK is set).
func Soak() bool { return os.Getenv("COLONNADE_SOAK") != "" }

// AtScale returns full in a soak, and short otherwise.
func AtScale(short, full int) int {
	if Soak() {
		return full
	}
	return short
}
