package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ColoState is what an entry has observed of one colo.
type ColoState struct {
	Colo      string
	RoundTrip time.Duration
	Measured  bool // else the round trip is a guess
	Unreached bool
}

// RegisterColos registers what an entry has observed of colos. colos is called at each scrape.
func RegisterColos(reg Registerer, colos func() []ColoState) {
	roundTrip := newDesc("colonnade_colo_round_trip_seconds",
		"Round trip from this entry to a colo, by which plans order colos: the least of the last ten seconds, smoothed.", "colo")
	measured := newDesc("colonnade_colo_round_trip_measured", "1 if the round trip to the colo was measured, 0 if positions or regions are the only source.", "colo")
	unreached := newDesc("colonnade_colo_unreached", "1 while the colo stands last in every step, since three requests in a row found no server of it.", "colo")
	reg.MustRegister(stateCollector{
		descs: []*prometheus.Desc{roundTrip, measured, unreached},
		collect: func(out chan<- prometheus.Metric) {
			for _, c := range colos() {
				out <- gauge(roundTrip, c.RoundTrip.Seconds(), c.Colo)
				out <- gauge(measured, oneIf(c.Measured), c.Colo)
				out <- gauge(unreached, oneIf(c.Unreached), c.Colo)
			}
		},
	})
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
