package onebox

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// EntryPlace is where the entry is, in a [Latency]. All other places are colos.
	EntryPlace = "entry"
	// MaxLatency is the longest round trip between two places.
	MaxLatency = time.Minute
	// maxInRegion is the longest round trip from a colo to the first colo of its region.
	maxInRegion = 20 * time.Millisecond
)

// Latency has the round trips between pairs of places: colos, and [EntryPlace]. If no pair names the entry, it is where the first colo
// is. The round trip between two places that are no pair is that of the shortest path over other places, and zero if there is none.
// Places at most 20 ms apart are in one region.
type Latency map[Pair]time.Duration

// Pair names two places, in any order.
type Pair [2]string

func (p Pair) String() string { return p[0] + "-" + p[1] }

func (p Pair) reversed() Pair { return Pair{p[1], p[0]} }

// check returns an error for a pair that there cannot be in a fleet with these colos.
func (l Latency) check(colos []string) error {
	if l != nil && slices.Contains(colos, EntryPlace) {
		return fmt.Errorf("a colo is named %s, which is the place of the entry: name the colo otherwise", EntryPlace)
	}
	var all []error
	for _, pair := range slices.SortedFunc(maps.Keys(l), func(a, b Pair) int { return slices.Compare(a[:], b[:]) }) {
		_, twice := l[pair.reversed()]
		d := l[pair]
		switch {
		case !slices.Contains(places(colos), pair[0]) || !slices.Contains(places(colos), pair[1]):
			all = append(all, fmt.Errorf("%s is no pair of the places %s", pair, strings.Join(places(colos), ", ")))
		case pair[0] == pair[1]:
			all = append(all, fmt.Errorf("%s is the same place twice: name two of %s", pair, strings.Join(places(colos), ", ")))
		case twice:
			all = append(all, fmt.Errorf("%s and %s are one pair: give its round trip once", pair, pair.reversed()))
		case d < 0 || d > MaxLatency:
			all = append(all, fmt.Errorf("%s cannot be %v apart: a round trip is from 0s to %v", pair, d, MaxLatency))
		}
	}
	return errors.Join(all...)
}

func places(colos []string) []string { return append(slices.Clone(colos), EntryPlace) }

// ParseLatency parses pairs such as "ams-fra=8ms" for a fleet with these colos, whose names may contain hyphens. It returns nil if there
// is no pair.
func ParseLatency(pairs, colos []string) (Latency, error) {
	if len(pairs) == 0 {
		return nil, nil //nolint:nilnil // a map
	}
	l := Latency{}
	for _, text := range pairs {
		names, value, found := strings.Cut(strings.TrimSpace(text), "=")
		d, err := time.ParseDuration(value)
		if !found || err != nil || !strings.Contains(names, "-") {
			return nil, fmt.Errorf("%q is no round trip between two places: write for example %s-%s=8ms", text, colos[0], EntryPlace)
		}
		pair, err := parsePair(names, colos)
		if err != nil {
			return nil, err
		}
		_, before := l[pair]
		_, reversed := l[pair.reversed()]
		if before || reversed {
			return nil, fmt.Errorf("%q: the pair is given twice: give its round trip once", text)
		}
		l[pair] = d
		if err := l.check(colos); err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
	}
	return l, nil
}

// parsePair splits two places at the hyphen between them. Names that can be split in two ways are refused.
func parsePair(names string, colos []string) (Pair, error) {
	var found []Pair
	for at := range len(names) {
		pair := Pair{names[:at], strings.TrimPrefix(names[at:], "-")}
		if names[at] == '-' && slices.Contains(places(colos), pair[0]) && slices.Contains(places(colos), pair[1]) {
			found = append(found, pair)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Pair{}, fmt.Errorf("%q is no pair of the places %s", names, strings.Join(places(colos), ", "))
	}
	return Pair{}, fmt.Errorf("%q has more than one meaning, %s and %s or %s and %s: name the colos otherwise",
		names, found[0][0], found[0][1], found[1][0], found[1][1])
}

// Between returns the round trip between two places of a fleet with these colos.
func (l Latency) Between(a, b string, colos []string) time.Duration {
	if d, ok := l.given(a, b); ok {
		return d
	}
	return l.shortest(colos)[Pair{a, b}]
}

// region returns the region of a place: that of the first colo which is near, or empty if none is. So a colo that is near no other has a
// region of its own.
func (l Latency) region(place string, colos []string) string {
	shortest := l.shortest(colos)
	for i, colo := range colos {
		_, linked := shortest[Pair{place, colo}]
		if place == colo || linked && l.Between(place, colo, colos) <= maxInRegion {
			return fmt.Sprintf("region-%d", i+1)
		}
	}
	return ""
}

// given returns the round trip of a pair.
func (l Latency) given(a, b string) (time.Duration, bool) {
	d, ok := l[Pair{a, b}]
	if !ok {
		d, ok = l[Pair{b, a}]
	}
	return d, ok
}

// shortest returns the least round trip of each two places that are linked, by the algorithm of Floyd and Warshall.
func (l Latency) shortest(colos []string) map[Pair]time.Duration {
	out := map[Pair]time.Duration{}
	entryNamed := false
	for pair, d := range l {
		out[pair], out[pair.reversed()] = d, d
		entryNamed = entryNamed || pair[0] == EntryPlace || pair[1] == EntryPlace
	}
	if !entryNamed {
		out[Pair{EntryPlace, colos[0]}], out[Pair{colos[0], EntryPlace}] = 0, 0
	}
	all := places(colos)
	for _, via := range all {
		for _, a := range all {
			for _, b := range all {
				first, ok1 := out[Pair{a, via}]
				second, ok2 := out[Pair{via, b}]
				least, linked := out[Pair{a, b}]
				if ok1 && ok2 && (!linked || first+second < least) {
					out[Pair{a, b}] = first + second
				}
			}
		}
	}
	return out
}
