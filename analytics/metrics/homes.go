package metrics

import "github.com/prometheus/client_golang/prometheus"

// HomesState counts what a colo server owns, of the engines of its colo.
type HomesState struct {
	Homes         int // pools whose home is this server
	Owned         int // engines on which it may grant
	Wanted        int // engines on which it may not grant yet, though it is the home of their pools
	HeldElsewhere int // requests of other servers on the engines that it owns or wants
	WrittenOff    int // silent processes whose requests do not count any more, since the start
}

// RegisterHomes registers the metrics of what a colo server owns. state is called at each scrape.
func RegisterHomes(reg Registerer, state func() HomesState) {
	homes := newDesc("colonnade_homes", "Pools whose home is this server.")
	engines := newDesc("colonnade_engines", "Engines of the pools whose home is this server: owned, on which it may grant, or wanted, on which it may not yet.", "state")
	held := newDesc("colonnade_held_elsewhere", "Requests of other servers of the colo on the engines of the pools whose home is this server.")
	written := newDesc("colonnade_written_off_total", "Silent processes of the colo whose requests this server has written off: their engines may run more than their limit.")
	reg.MustRegister(stateCollector{
		descs: []*prometheus.Desc{homes, engines, held, written},
		collect: func(out chan<- prometheus.Metric) {
			s := state()
			out <- gauge(homes, float64(s.Homes))
			out <- gauge(engines, float64(s.Owned), "owned")
			out <- gauge(engines, float64(s.Wanted), "wanted")
			out <- gauge(held, float64(s.HeldElsewhere))
			out <- counter(written, float64(s.WrittenOff))
		},
	})
}
