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

// LinkStats are the links of a node and their streams, each of which carries a request.
type LinkStats struct{ Links, Streams int }

// RegisterLinks registers the metrics of a node's links to other nodes. direction is in (the other node has opened them) or out; state is called at each scrape.
func RegisterLinks(reg Registerer, direction string, state func() LinkStats) {
	labels := prometheus.Labels{"direction": direction}
	links := prometheus.NewDesc("colonnade_links", "Open links: connections between nodes that carry many requests, by direction: in (of nodes that send this one requests) or out (of nodes that get requests).", nil, labels)
	streams := prometheus.NewDesc("colonnade_link_streams", "Requests that are carried by links, by direction as colonnade_links.", nil, labels)
	reg.MustRegister(stateCollector{
		descs: []*prometheus.Desc{links, streams},
		collect: func(out chan<- prometheus.Metric) {
			s := state()
			out <- gauge(links, float64(s.Links))
			out <- gauge(streams, float64(s.Streams))
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
