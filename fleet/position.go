package fleet

import (
	"errors"
	"strconv"
	"strings"
)

// Position is a place on the globe, in degrees.
type Position struct {
	// Latitude; north is positive.
	Lat float64 `json:"lat" range:"-90,90" need:"yes"`
	// Longitude; east is positive.
	Lon float64 `json:"lon" range:"-180,180" need:"yes"`
}

var errPosition = errors.New("must be LAT,LON in degrees, such as 52.37,4.9, with LAT from -90 to 90 and LON from -180 to 180")

// ParsePosition reads a position as it stands in a flag: latitude and longitude in decimal degrees, separated by a comma.
func ParsePosition(s string) (Position, error) {
	latitude, longitude, _ := strings.Cut(s, ",")
	lat, latOK := parseDegrees(latitude, 90)
	lon, lonOK := parseDegrees(longitude, 180)
	if !latOK || !lonOK {
		return Position{}, errPosition
	}
	return Position{Lat: lat, Lon: lon}, nil
}

// parseDegrees reads a decimal number of degrees, at most limit on either side of 0.
func parseDegrees(s string, limit float64) (degrees float64, ok bool) {
	s = strings.TrimSpace(s)
	if strings.Trim(s, "+-.0123456789") != "" { // such as NaN, 1e1 and 0x1p3
		return 0, false
	}
	degrees, err := strconv.ParseFloat(s, 64)
	return degrees, err == nil && degrees >= -limit && degrees <= limit
}
