package node

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The page of sinks has the rate at which nodes send.
func TestPageHasTheRateOfSinks(t *testing.T) {
	page, err := os.ReadFile("../docs/sinks.md")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("A node sends at most %d %03d events a second to each sink", maxSinkRate/1000, maxSinkRate%1000)
	if !strings.Contains(string(page), want) {
		t.Errorf("docs/sinks.md lacks %q", want)
	}
}
