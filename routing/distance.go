package routing

import (
	"math"
	"time"

	"colonnade/fleet"
)

// Place is where a node or a colo is.
type Place struct {
	Region   string          // empty = not known
	Position *fleet.Position // nil = not known
}

// Guessed round trips between places of which one has no position.
const (
	sameRegion  = 5 * time.Millisecond
	otherRegion = 100 * time.Millisecond
)

const (
	earthRadius = 6371.0088            // mean radius in km
	fibreSpeed  = 299792.458 * 2.0 / 3 // km/s: light in glass has two thirds of its speed in vacuum
)

// Guess estimates the round trip between two places: light in a fibre along the great circle, there and back. If one of them has
// no position, the estimate is 5 ms in one region, and 100 ms otherwise.
func Guess(a, b Place) time.Duration {
	switch {
	case a.Position != nil && b.Position != nil:
		seconds := 2 * greatCircle(*a.Position, *b.Position) / fibreSpeed
		return time.Duration(seconds * float64(time.Second))
	case a.Region == b.Region && a.Region != "":
		return sameRegion
	}
	return otherRegion
}

// greatCircle returns the distance of two positions on the globe in km, by the haversine formula.
func greatCircle(a, b fleet.Position) float64 {
	const radian = math.Pi / 180
	haversine := func(degrees float64) float64 {
		s := math.Sin(degrees * radian / 2)
		return s * s
	}
	h := haversine(b.Lat-a.Lat) + math.Cos(a.Lat*radian)*math.Cos(b.Lat*radian)*haversine(b.Lon-a.Lon)
	return 2 * earthRadius * math.Asin(math.Sqrt(min(h, 1)))
}

// placeOf returns the place of a colo.
func placeOf(c *fleet.Colo) Place { return Place{Region: c.Region, Position: c.Position} }
