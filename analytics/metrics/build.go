package metrics

import "github.com/prometheus/client_golang/prometheus"

// Build names the software that a node runs.
type Build struct {
	Version  string // of the release; (devel) without one
	Revision string // of the source; empty if the binary does not have it
	Go       string // version of Go that has compiled it
}

// RegisterBuild registers a gauge that is always 1 and names the software in its labels.
func RegisterBuild(reg Registerer, b Build) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "colonnade_build_info",
		Help:        "1; the labels name the software that the node runs: its version, the revision of its source, and the version of Go.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "go": b.Go},
	}, func() float64 { return 1 }))
}
