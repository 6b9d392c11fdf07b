package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ConnStats are the connections to a node's listener for requests. The counts of refused ones are since it started.
type ConnStats struct {
	Open          int
	RefusedPerIP  uint64 // one address had too many
	RefusedGlobal uint64 // there were too many in all
}

// RegisterConnections registers the metrics of a node's connections. state is called at each scrape.
func RegisterConnections(reg Registerer, state func() ConnStats) {
	open := newDesc("colonnade_connections", "Open connections to the listener for requests.")
	refused := newDesc("colonnade_connections_refused_total",
		"Connections refused since their address had too many (reason address), or since there were too many in all (reason total).", "reason")
	reg.MustRegister(stateCollector{
		descs: []*prometheus.Desc{open, refused},
		collect: func(out chan<- prometheus.Metric) {
			s := state()
			out <- gauge(open, float64(s.Open))
			out <- counter(refused, float64(s.RefusedPerIP), "address")
			out <- counter(refused, float64(s.RefusedGlobal), "total")
		},
	})
}

// RegisterCertificate registers when a certificate expires. listener is public or peer; expires is called at each
// scrape, and its zero value stands for no certificate.
func RegisterCertificate(reg Registerer, listener string, expires func() time.Time) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "colonnade_tls_certificate_expiry_timestamp_seconds",
		Help:        "Unix time in seconds at which the certificate in force expires, by listener: public (clients; of several names the first one, 0 = one has none yet) or peer (other nodes).",
		ConstLabels: prometheus.Labels{"listener": listener},
	}, func() float64 { return float64(max(expires().Unix(), 0)) }))
}
