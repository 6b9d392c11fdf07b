package api

import "testing"

// callActions calls each action, as described, with success.
func callActions(t *testing.T, v *validator) {
	t.Helper()
}
