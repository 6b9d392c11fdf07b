package entry

import (
	"hash/fnv"
	"time"

	"colonnade/fleet"
	"colonnade/routing"
)

// dayRegion is a region of the simulated fleet. The positions of cities are public facts; the shares are invented.
type dayRegion struct {
	name     string
	clients  float64 // share of all clients
	capacity float64 // share of all slots
	cities   []dayCity
}

// dayCity is a place with colos. The first city of a region also has the region's entry.
type dayCity struct {
	name     string
	position fleet.Position
}

// dayRegions are the regions of the simulated fleet. Western Europe and North America have more than their share of the slots, and
// Asia, Africa and South America less, so that requests must cross oceans at some hours of the day.
func dayRegions() []dayRegion {
	return []dayRegion{
		{"wnam", 10, 13, []dayCity{
			{"lax", fleet.Position{Lat: 34.05, Lon: -118.24}}, {"sjc", fleet.Position{Lat: 37.34, Lon: -121.89}},
			{"sea", fleet.Position{Lat: 47.61, Lon: -122.33}}, {"phx", fleet.Position{Lat: 33.45, Lon: -112.07}},
			{"yvr", fleet.Position{Lat: 49.28, Lon: -123.12}},
		}},
		{"cnam", 8, 11, []dayCity{
			{"dfw", fleet.Position{Lat: 32.78, Lon: -96.80}}, {"chi", fleet.Position{Lat: 41.88, Lon: -87.63}},
			{"den", fleet.Position{Lat: 39.74, Lon: -104.99}}, {"hou", fleet.Position{Lat: 29.76, Lon: -95.37}},
			{"msp", fleet.Position{Lat: 44.98, Lon: -93.27}},
		}},
		{"enam", 14, 17, []dayCity{
			{"nyc", fleet.Position{Lat: 40.71, Lon: -74.01}}, {"iad", fleet.Position{Lat: 39.04, Lon: -77.49}},
			{"atl", fleet.Position{Lat: 33.75, Lon: -84.39}}, {"mia", fleet.Position{Lat: 25.76, Lon: -80.19}},
			{"yyz", fleet.Position{Lat: 43.65, Lon: -79.38}},
		}},
		{"sam", 7, 5, []dayCity{
			{"gru", fleet.Position{Lat: -23.55, Lon: -46.63}}, {"eze", fleet.Position{Lat: -34.60, Lon: -58.38}},
			{"scl", fleet.Position{Lat: -33.45, Lon: -70.67}}, {"bog", fleet.Position{Lat: 4.71, Lon: -74.07}},
			{"gig", fleet.Position{Lat: -22.91, Lon: -43.17}},
		}},
		{"weur", 16, 18, []dayCity{
			{"lon", fleet.Position{Lat: 51.51, Lon: -0.13}}, {"ams", fleet.Position{Lat: 52.37, Lon: 4.90}},
			{"par", fleet.Position{Lat: 48.86, Lon: 2.35}}, {"fra", fleet.Position{Lat: 50.11, Lon: 8.68}},
			{"mad", fleet.Position{Lat: 40.42, Lon: -3.70}},
		}},
		{"eeur", 8, 8, []dayCity{
			{"waw", fleet.Position{Lat: 52.23, Lon: 21.01}}, {"sto", fleet.Position{Lat: 59.33, Lon: 18.07}},
			{"vie", fleet.Position{Lat: 48.21, Lon: 16.37}}, {"buh", fleet.Position{Lat: 44.43, Lon: 26.10}},
			{"ist", fleet.Position{Lat: 41.01, Lon: 28.98}},
		}},
		{"me", 4, 3, []dayCity{
			{"dxb", fleet.Position{Lat: 25.20, Lon: 55.27}}, {"ruh", fleet.Position{Lat: 24.71, Lon: 46.68}},
			{"tlv", fleet.Position{Lat: 32.09, Lon: 34.78}}, {"doh", fleet.Position{Lat: 25.29, Lon: 51.53}},
			{"amm", fleet.Position{Lat: 31.95, Lon: 35.93}},
		}},
		{"afr", 3, 2, []dayCity{
			{"jnb", fleet.Position{Lat: -26.20, Lon: 28.05}}, {"cpt", fleet.Position{Lat: -33.92, Lon: 18.42}},
			{"nbo", fleet.Position{Lat: -1.29, Lon: 36.82}}, {"cai", fleet.Position{Lat: 30.04, Lon: 31.24}},
			{"los", fleet.Position{Lat: 6.52, Lon: 3.38}},
		}},
		{"sas", 10, 6, []dayCity{
			{"bom", fleet.Position{Lat: 19.08, Lon: 72.88}}, {"del", fleet.Position{Lat: 28.61, Lon: 77.21}},
			{"maa", fleet.Position{Lat: 13.08, Lon: 80.27}}, {"hyd", fleet.Position{Lat: 17.39, Lon: 78.49}},
			{"khi", fleet.Position{Lat: 24.86, Lon: 67.01}},
		}},
		{"seas", 6, 5, []dayCity{
			{"sin", fleet.Position{Lat: 1.35, Lon: 103.82}}, {"cgk", fleet.Position{Lat: -6.21, Lon: 106.85}},
			{"bkk", fleet.Position{Lat: 13.76, Lon: 100.50}}, {"kul", fleet.Position{Lat: 3.14, Lon: 101.69}},
			{"mnl", fleet.Position{Lat: 14.60, Lon: 120.98}},
		}},
		{"neas", 12, 10, []dayCity{
			{"tyo", fleet.Position{Lat: 35.68, Lon: 139.69}}, {"osa", fleet.Position{Lat: 34.69, Lon: 135.50}},
			{"sel", fleet.Position{Lat: 37.57, Lon: 126.98}}, {"tpe", fleet.Position{Lat: 25.03, Lon: 121.57}},
			{"hkg", fleet.Position{Lat: 22.32, Lon: 114.17}},
		}},
		{"oce", 2, 2, []dayCity{
			{"syd", fleet.Position{Lat: -33.87, Lon: 151.21}}, {"mel", fleet.Position{Lat: -37.81, Lon: 144.96}},
			{"akl", fleet.Position{Lat: -36.85, Lon: 174.76}}, {"per", fleet.Position{Lat: -31.95, Lon: 115.86}},
			{"bne", fleet.Position{Lat: -27.47, Lon: 153.03}},
		}},
	}
}

// dayNetwork has the round trips between cities, by index.
type dayNetwork [][]time.Duration

// newDayNetwork returns round trips that differ from what [routing.Guess] says: a fibre is 1.2 to 1.9 times as long as the great circle,
// by the pair of cities, and the devices on the way take 1 ms.
func newDayNetwork(cities []dayCity) dayNetwork {
	n := make(dayNetwork, len(cities))
	for i, a := range cities {
		n[i] = make([]time.Duration, len(cities))
		for j, b := range cities {
			guess := routing.Guess(routing.Place{Position: &a.position}, routing.Place{Position: &b.position})
			pair := fnv.New32a()
			pair.Write([]byte(min(a.name, b.name) + max(a.name, b.name)))
			detour := 1.2 + 0.7*float64(pair.Sum32()%1000)/1000
			n[i][j] = time.Millisecond + time.Duration(detour*float64(guess))
		}
	}
	return n
}
