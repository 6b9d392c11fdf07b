//go:build pending

package server

import (
	"testing"

	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyMain(m) }
