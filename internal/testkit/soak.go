package testkit

import "os"

// Soak says that tests run in full length and to exact marks.
func Soak() bool { return os.Getenv("COLONNADE_SOAK") != "" }

// AtScale is for counts that a soak has in full.
func AtScale(short, full int) int {
	if Soak() {
		return full
	}
	return short
}
