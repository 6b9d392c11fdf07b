package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Selects reports whether a step selects a colo by its name or region, and by its labels. How far the colo is does not count here.
func (s *Step) Selects(c *Colo) bool {
	everywhere := len(s.Colos) == 0 && len(s.Regions) == 0
	if !everywhere && !slices.Contains(s.Colos, c.Name) && !slices.Contains(s.Regions, c.Region) {
		return false
	}
	for label, value := range s.Labels {
		if v, ok := c.Labels[label]; !ok || v != value {
			return false
		}
	}
	return true
}

// selection describes the colos that the step selects.
func (s *Step) selection() string {
	var parts []string
	if len(s.Colos) > 0 {
		parts = append(parts, "colos "+strings.Join(s.Colos, ", "))
	}
	if len(s.Regions) > 0 {
		parts = append(parts, "regions "+strings.Join(s.Regions, ", "))
	}
	for _, label := range slices.Sorted(maps.Keys(s.Labels)) {
		parts = append(parts, fmt.Sprintf("label %s: %s", label, s.Labels[label]))
	}
	return strings.Join(parts, "; ")
}
