//go:build pending

package realtime

import (
	"testing"

	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyMain(m) }
