package light_test

import (
	"testing"

	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyMain(m) }
