package fleet_test

import (
	"testing"

	"colonnade/fleet"
)

func TestParsePosition(t *testing.T) {
	f := func(in string, lat, lon float64) {
		t.Helper()
		if got, err := fleet.ParsePosition(in); err != nil || got != (fleet.Position{Lat: lat, Lon: lon}) {
			t.Errorf("%q: %+v, %v; want %v, %v", in, got, err, lat, lon)
		}
	}
	f("52.37,4.9", 52.37, 4.9)
	f(" -33.9, +151.2 ", -33.9, 151.2)
	f("90,-180", 90, -180)
	f("-90,180.0", -90, 180)
	for _, bad := range []string{
		"", ",", "52.37", "52.37 4.9", "52.37,", ",4.9", "52.37,4.9,1", "90.001,0", "-90.001,0", "0,180.001", "0,-181", "N52,E4",
		"NaN,0", "0,NaN", "Inf,0", "0,-inf", "0x1p3,0", "1e1,0", "52,37,4,9", "1_0,0", "5-2,1", "52°,4°",
	} {
		if got, err := fleet.ParsePosition(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}
