//go:build !linux

package main

import (
	"io"
	"os"
	"testing"
)

// pseudo skips the test.
func pseudo(t *testing.T, _, _ uint16, _ io.Writer) *os.File {
	t.Helper()
	t.Skip("the test makes terminals as Linux does")
	return nil
}
