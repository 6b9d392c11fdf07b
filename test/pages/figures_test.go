package pages

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	slower  = regexp.MustCompile(`([0-9.]+) × with (colonnade|haproxy)`)
	refused = regexp.MustCompile(`(no queue|fifo|round robin) refuses ([0-9.]+) %`)
)

// The README has the figures of docs/overload.md, rounded.
func TestReadmeFigures(t *testing.T) {
	readme := strings.Join(strings.Fields(read(t, "README.md")), " ")
	report := strings.ReplaceAll(read(t, "docs/overload.md"), "\u00a0", " ")
	measured := map[string]float64{}
	for _, m := range slower.FindAllStringSubmatch(report, -1) {
		measured[m[2]], _ = strconv.ParseFloat(m[1], 64)
	}
	for _, m := range refused.FindAllStringSubmatch(report, -1) {
		measured[m[1]], _ = strconv.ParseFloat(m[2], 64)
	}
	if len(measured) != 5 {
		t.Fatalf("docs/overload.md begins with the figures %v: this test must follow it", measured)
	}
	low, high := math.Min(measured["fifo"], measured["round robin"]), math.Max(measured["fifo"], measured["round robin"])
	for _, want := range []string{
		fmt.Sprintf("wait %.1f times as long", measured["colonnade"]), fmt.Sprintf("With HAProxy they wait %.0f times as long", measured["haproxy"]),
		fmt.Sprintf("refuse %.0f to %.0f %%", low, high), fmt.Sprintf("no queue at all %.0f %%", measured["no queue"]),
	} {
		if !strings.Contains(readme, want) {
			t.Errorf("README.md lacks %q, as docs/overload.md has it", want)
		}
	}
}
