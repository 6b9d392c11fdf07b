package colo

import (
	"slices"
	"testing"

	"colonnade/permits"
)

// Only engines that are up and whose events are wanted are reported.
func TestEventsUnread(t *testing.T) {
	t.Parallel()
	endpoint := func(id, state string, c *permits.CacheStats) permits.EndpointStats {
		return permits.EndpointStats{Health: permits.Health{ID: id, State: state, Cache: c}}
	}
	refused := &permits.CacheStats{Events: &permits.CacheEvents{Error: "refused"}}
	got := eventsUnread([]permits.EndpointStats{
		endpoint("z", "up", refused), endpoint("b", "up", nil), endpoint("c", "up", &permits.CacheStats{}), endpoint("d", "down", refused),
		endpoint("e", "up", &permits.CacheStats{Events: &permits.CacheEvents{Connected: true}}), endpoint("a", "up", refused),
	})
	if want := []string{"a: refused", "z: refused"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
