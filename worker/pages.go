package worker

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"colonnade/admin"
	"colonnade/fleet"
)

// pages returns the admin pages.
func (w *Worker) pages() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collector{w})
	if w.c.GPUs.Metrics != nil {
		registry.MustRegister(w.c.GPUs.Metrics)
	}
	return admin.Handler(admin.Config{Metrics: registry, Ready: w.ready, Worker: w.page, Hosts: w.c.AdminHosts})
}

// ready returns why the engine does not serve.
func (w *Worker) ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.state.worker.Engine; e.State != fleet.WorkerServing {
		return fmt.Errorf("%s: %s", e.State, e.Reason)
	}
	return nil
}

// page returns the worker's document and the newest figures of its GPUs.
func (w *Worker) page() any {
	w.mu.Lock()
	page := map[string]any{"node": w.c.Node, "worker": w.state.document(), "endpoint": string(w.last.Endpoint.Value)}
	w.mu.Unlock()
	if w.c.GPUs.Live != nil {
		page["gpus"] = w.c.GPUs.Live()
	}
	return page
}

// collector shows the state of the engine as metrics.
type collector struct{ w *Worker }

var (
	descState     = prometheus.NewDesc("colonnade_worker_state", "1 for the state that the engine of this worker is in, 0 for all others.", []string{"state"}, nil)
	descRestarts  = prometheus.NewDesc("colonnade_worker_restarts_total", "How many times the engine was started again, after it had ended by itself or hung.", nil, nil)
	descIncidents = prometheus.NewDesc("colonnade_worker_incidents_total", "Incidents of the engine and its GPUs.", []string{"kind"}, nil)
)

// Describe implements prometheus.Collector.
func (collector) Describe(to chan<- *prometheus.Desc) {
	to <- descState
	to <- descRestarts
	to <- descIncidents
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	c.w.mu.Lock()
	engine, incidents := c.w.state.worker.Engine, c.w.state.counted
	c.w.mu.Unlock()
	for _, state := range []string{fleet.WorkerStarting, fleet.WorkerServing, fleet.WorkerOut, fleet.WorkerDraining, fleet.WorkerBackoff} {
		value := 0.0
		if state == engine.State {
			value = 1
		}
		to <- prometheus.MustNewConstMetric(descState, prometheus.GaugeValue, value, state)
	}
	to <- prometheus.MustNewConstMetric(descRestarts, prometheus.CounterValue, float64(engine.Restarts))
	for i, kind := range incidentKinds {
		to <- prometheus.MustNewConstMetric(descIncidents, prometheus.CounterValue, float64(incidents[i]), kind)
	}
}

// incidentKinds are the kinds of incidents.
var incidentKinds = [...]string{fleet.IncidentEngineExit, fleet.IncidentEngineHung, fleet.IncidentXid, fleet.IncidentECC, fleet.IncidentGPULost}
