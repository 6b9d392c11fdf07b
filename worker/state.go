package worker

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"colonnade/discovery/engines"
	"colonnade/fleet"
)

// state is what a worker knows. Its documents are a function of it.
type state struct {
	worker fleet.Worker    // complete after update
	engine *engines.Engine // its last answer; nil = none yet
	gpus   GPUState

	waiting  string // what the engine has not answered since it was started; "" = it has answered
	backoff  string // why the engine does not run; "" = it does
	failing  string // why it is out although it has answered; "" = it is well
	draining bool

	counted [len(incidentKinds)]int // incidents so far, by kind
}

// condition returns the state of the engine, and why it is not serving.
func (s *state) condition() (name, reason string) {
	switch {
	case s.draining:
		return fleet.WorkerDraining, "the worker of the engine is about to end"
	case s.backoff != "":
		return fleet.WorkerBackoff, s.backoff
	case s.waiting != "":
		return fleet.WorkerStarting, s.waiting
	case s.failing != "" || s.gpus.Out != "":
		return fleet.WorkerOut, cmp.Or(s.failing, s.gpus.Out)
	case len(s.engine.Models) == 0:
		return fleet.WorkerOut, "the engine lists no model that can be used"
	}
	return fleet.WorkerServing, ""
}

// update changes the state, and gives the registry what follows from it, if that is another than before.
func (w *Worker) update(change func(*state)) {
	w.mu.Lock()
	line := w.updateLocked(change)
	w.mu.Unlock()
	if line != "" {
		w.report("%s", line)
	}
}

// updateLocked returns a line about the engine if its state is another one now.
func (w *Worker) updateLocked(change func(*state)) (line string) {
	s := &w.state
	change(s)
	next := Registration{Endpoint: w.last.Endpoint, Models: w.last.Models}
	before := s.worker.Engine
	s.derive()
	if err := w.describe(&next); err != nil { // the operator's fields are checked, so the engine has said something odd
		s.worker.Engine.State, s.worker.Engine.Reason = fleet.WorkerOut, engines.Statement(err.Error())
	}
	e := &s.worker.Engine
	if e.State != before.State {
		e.Since = time.Now().Truncate(time.Millisecond)
	}
	next.Worker = s.document()
	if !reflect.DeepEqual(next, w.last) {
		w.last = next
		w.c.Registry.Set(next)
	}
	switch {
	case before.State == "" || e.State == before.State && e.Reason == before.Reason:
		return ""
	case e.State == fleet.WorkerServing:
		w.background.Go(w.confirm)
		return ""
	}
	return e.State + ": " + e.Reason
}

// derive completes the worker's document.
func (s *state) derive() {
	d := &s.worker
	name, reason := s.condition()
	d.Engine.State, d.Engine.Reason = name, engines.Statement(reason)
	d.Driver, d.NoGPUs, d.Engine.GPUs = engines.Statement(s.gpus.Driver), engines.Statement(s.gpus.None), s.gpus.Engine
	d.GPUs = slices.Clone(s.gpus.GPUs)
	for i := range d.GPUs {
		d.GPUs[i].Name, d.GPUs[i].Problem = engines.Statement(d.GPUs[i].Name), engines.Statement(d.GPUs[i].Problem)
	}
	if s.engine != nil {
		d.Engine.Software = engines.Statement(s.engine.String())
	}
}

// describe sets the documents of the endpoint, its pool and its models.
func (w *Worker) describe(r *Registration) error {
	s := &w.state
	if s.engine == nil {
		return nil
	}
	out := ""
	if s.worker.Engine.State != fleet.WorkerServing {
		out = s.worker.Engine.Reason
	}
	endpoint, models, err := w.c.place(s.worker.Engine.Pool, out).Register(s.engine)
	if err != nil {
		return err
	}
	if r.Endpoint = endpoint; !w.c.NoModels {
		r.Models = models
	}
	return nil
}

// document returns the worker's document, which shares nothing with the state.
func (s *state) document() fleet.Worker {
	d := s.worker
	d.GPUs, d.Incidents, d.Engine.GPUs = slices.Clone(d.GPUs), slices.Clone(d.Incidents), slices.Clone(d.Engine.GPUs)
	return d
}

// confirm reports that the engine serves, once its document stands where servers see it.
func (w *Worker) confirm() {
	if w.c.Registry.Stored(w.lifetime) != nil {
		return
	}
	w.mu.Lock()
	e, engine := w.state.worker.Engine, w.state.engine
	w.mu.Unlock()
	endpoint, err := w.endpoint(engine)
	if err != nil || e.State != fleet.WorkerServing {
		return
	}
	slots := fmt.Sprint(endpoint.Concurrency)
	if endpoint.Auto != nil {
		slots = "auto"
	}
	w.report("serving: %s in the pool %s, concurrency %s", fleet.KindEndpoint.Key(w.c.Colo, e.Endpoint), e.Pool, slots)
}

// addIncident appends an incident to those of the worker.
func (s *state) addIncident(i fleet.Incident) {
	d := &s.worker
	i.Number = 1
	if n := len(d.Incidents); n > 0 {
		i.Number = d.Incidents[n-1].Number + 1
	}
	if i.Time.IsZero() {
		i.Time = time.Now()
	}
	i.Time, i.Detail = i.Time.Truncate(time.Millisecond), engines.Statement(i.Detail)
	if kind := slices.Index(incidentKinds[:], i.Kind); kind >= 0 {
		s.counted[kind]++
	}
	d.Incidents = append(slices.Clone(d.Incidents), i)
	d.Incidents = d.Incidents[max(0, len(d.Incidents)-fleet.MaxIncidents):]
}

// gpusReported takes a new state of the GPUs.
func (w *Worker) gpusReported(g GPUState) {
	w.update(func(s *state) {
		for _, i := range g.Incidents {
			s.addIncident(i)
		}
		g.Incidents = nil
		s.gpus = g
	})
}
