package routing_test

import (
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/routing"
)

func TestGuess(t *testing.T) {
	place := func(region string, lat, lon float64) routing.Place {
		return routing.Place{Region: region, Position: &fleet.Position{Lat: lat, Lon: lon}}
	}
	f := func(a, b routing.Place, want time.Duration) {
		t.Helper()
		for _, got := range []time.Duration{routing.Guess(a, b), routing.Guess(b, a)} {
			if diff := got - want; diff > 100*time.Microsecond || diff < -100*time.Microsecond {
				t.Errorf("%v, want %v", got, want)
			}
		}
	}
	amsterdam, frankfurt, washington := place("weur", 52.3, 4.9), place("weur", 50.1, 8.7), place("enam", 38.9, -77.4)
	f(amsterdam, frankfurt, 3600*time.Microsecond)   // 361 km
	f(amsterdam, washington, 62200*time.Microsecond) // 6210 km
	f(amsterdam, amsterdam, 0)
	f(place("", 0, 179.5), place("", 0, -179.5), 1110*time.Microsecond) // 111 km across the date line
	f(place("", 90, 0), place("", -90, 77), 200300*time.Microsecond)    // half of the globe
	f(place("", 1.5, 0), place("", -1.5, 180), 200300*time.Microsecond) // as far as the globe allows
	f(amsterdam, routing.Place{Region: "weur"}, 5*time.Millisecond)
	f(amsterdam, routing.Place{Region: "enam"}, 100*time.Millisecond)
	f(routing.Place{}, routing.Place{}, 100*time.Millisecond)
}

func TestDistanceIsMeasuredOrGuessed(t *testing.T) {
	planner := routing.NewPlanner(routing.Place{Region: "west"})
	f := func(r routing.Request, want time.Duration, measured bool) {
		t.Helper()
		if d, m := planner.Distance(&fleet.Colo{Name: "a", Region: "west"}, r); d != want || m != measured {
			t.Errorf("%v, measured %v; want %v, %v", d, m, want, measured)
		}
	}
	f(routing.Request{}, 5*time.Millisecond, false)
	f(routing.Request{RoundTrip: roundTrips(nil)}, 5*time.Millisecond, false)
	f(routing.Request{RoundTrip: roundTrips(map[string]int{"a": 9})}, 9*time.Millisecond, true)
}
