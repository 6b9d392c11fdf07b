package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Registry holds the metrics of one node. Each node of a process has its own.
type Registry = prometheus.Registry

// Registerer takes the metrics of a part of a node.
type Registerer = prometheus.Registerer

// WithRole returns a view of a registry that adds the label role to all metrics, for a process that is an entry and a colo server: some of
// their metrics have the same names.
func WithRole(r *Registry, role string) Registerer {
	return prometheus.WrapRegistererWith(prometheus.Labels{"role": role}, r)
}

// WithNode returns a view of a registry that adds the label node to all metrics, for a process that ships the events of several nodes.
func WithNode(r *Registry, node string) Registerer {
	return prometheus.WrapRegistererWith(prometheus.Labels{"node": node}, r)
}

// NewRegistry returns a registry with the metrics of the Go runtime and of the process.
func NewRegistry() *Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// stateCollector reads a state when it is scraped.
type stateCollector struct {
	descs   []*prometheus.Desc
	collect func(chan<- prometheus.Metric)
}

// Describe implements prometheus.Collector.
func (c stateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c stateCollector) Collect(out chan<- prometheus.Metric) { c.collect(out) }

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func counter(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}
