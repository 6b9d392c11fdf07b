//go:build pending

package transport

import (
	"testing"

	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyMain(m) }
