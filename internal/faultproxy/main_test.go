package faultproxy_test

import (
	"testing"

	"go.uber.org/goleak"
)

// After Close, no goroutine is left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
