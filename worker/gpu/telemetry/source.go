// Package telemetry gives a worker what its GPUs do. It runs colonnade-gpus, which calls the driver, as a child that it may lose at any time:
// a call of a driver may hang for ever, or end its process. Without the program, a driver or GPUs, the worker goes on, and says why it knows
// nothing.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"colonnade/analytics/metrics"
	"colonnade/fleet"
	"colonnade/worker"
	"colonnade/worker/gpu"
)

// Config is where the figures come from. The zero value is a worker's usual one.
type Config struct {
	// Devices are the GPUs of the engine: Auto or "" = those that are found, Off = GPUs are not read, All, or names as in CUDA_VISIBLE_DEVICES.
	Devices  string
	Program  string        // path of colonnade-gpus; "" = beside this program, or in PATH
	Library  string        // path of NVML; "" = where the dynamic linker finds it
	Interval time.Duration // between two readings; 0 = 5 s
	Proc     gpu.Proc      // directory of processes; "" = /proc
	Logger   *slog.Logger
}

// Values of Config.Devices beside names of GPUs.
const (
	Auto = "auto"
	All  = "all"
	Off  = "off"
)

// CheckDevices refuses a value that Config.Devices cannot have.
func CheckDevices(value string) error {
	if slices.Contains([]string{Auto, All, Off}, value) {
		return nil
	}
	for name := range strings.SplitSeq(value, ",") {
		n, err := strconv.Atoi(name)
		if (err != nil || n < 0) && !strings.HasPrefix(name, "GPU-") && !strings.HasPrefix(name, "MIG-") {
			return fmt.Errorf("must be %s, %s, %s, or names such as 0,1 or GPU-… or MIG-…", Auto, All, Off)
		}
	}
	return nil
}

// lookAgain is the time after which a process that was not found is looked for again: to look through all processes costs milliseconds.
const lookAgain = 30 * time.Second

// Source returns the GPUs of this machine.
func Source(c Config) worker.GPUSource {
	if c.Devices == Off {
		return worker.GPUSource{}
	}
	s := newSource(c)
	return worker.GPUSource{Run: s.run, Metrics: metrics.NewGPUs(s.stats), Live: s.live}
}

// source follows the GPUs. Its goroutine alone uses what stands above the mutex.
type source struct {
	reader   reader
	proc     gpu.Proc
	devices  string
	logger   *slog.Logger
	verdicts gpu.Verdicts
	found    listener
	said     string           // the last reason that was logged
	noEvents string           // the last reason why events are not seen
	state    worker.GPUState  // reported last, without incidents
	began    bool             // something was reported
	waiting  []fleet.Incident // not reported yet

	mu      sync.Mutex
	engine  worker.EngineProcess
	reading gpu.Reading
	uses    []gpu.Use // the last that were found: an engine that has ended because of its GPU uses none
	lastXid map[string]uint64
}

// listener is the process that was found at the port of an engine that others have started.
type listener struct {
	url  string
	pid  int
	next time.Time // when it is looked for again
}

func newSource(c Config) *source {
	if c.Interval == 0 {
		c.Interval = 5 * time.Second
	}
	if c.Proc == "" {
		c.Proc = "/proc"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &source{
		proc: c.Proc, devices: c.Devices, logger: c.Logger, lastXid: map[string]uint64{},
		reader: reader{program: c.Program, library: c.Library, interval: c.Interval, pause: pauseAfter},
	}
}

// run is Run of worker.GPUSource.
func (s *source) run(ctx context.Context, engine func() worker.EngineProcess, report func(worker.GPUState)) {
	s.reader.line = func(l gpu.Line) { s.take(l, engine(), report) }
	s.reader.none = func(reason string) {
		s.take(gpu.Line{Reading: &gpu.Reading{Time: time.Now(), None: reason}}, engine(), report)
	}
	s.reader.run(ctx)
}

// take takes a line in, and reports what it changes.
func (s *source) take(l gpu.Line, engine worker.EngineProcess, report func(worker.GPUState)) {
	var found []fleet.Incident
	if l.Event != nil {
		found = s.verdicts.Event(*l.Event)
	} else {
		found = s.verdicts.Reading(*l.Reading)
		s.log(*l.Reading)
		s.logEvents(*l.Reading)
		s.update(*l.Reading, engine)
	}
	s.mu.Lock()
	if l.Event != nil && l.Event.Xid != 0 {
		s.lastXid[l.Event.GPU] = l.Event.Xid
	}
	reading, uses := s.reading, s.uses
	s.mu.Unlock()
	state := s.stateOf(reading, uses)
	s.waiting = append(s.waiting, s.own(found, uses, reading)...)
	if s.began && len(s.waiting) == 0 && reflect.DeepEqual(state, s.state) {
		return
	}
	s.state, s.began = state, true
	state.Incidents, s.waiting = s.waiting, nil
	report(state)
}

// log says once why nothing is known, and once that something is.
func (s *source) log(r gpu.Reading) {
	if r.None == s.said {
		return
	}
	if s.said = r.None; r.None != "" {
		s.logger.Warn("nothing is known of GPUs", "reason", r.None)
		return
	}
	s.logger.Info("reading GPUs", "gpus", len(r.GPUs), "driver", r.Driver)
}

// logEvents says once why errors of GPUs are not seen as they happen, and once that they are again.
func (s *source) logEvents(r gpu.Reading) {
	if r.None != "" || r.NoEvents == s.noEvents {
		return
	}
	if s.noEvents = r.NoEvents; r.NoEvents != "" {
		s.logger.Warn("errors of GPUs are not seen as they happen", "reason", r.NoEvents)
		return
	}
	s.logger.Info("errors of GPUs are seen again as they happen")
}

// update keeps a reading and what the engine uses of it.
func (s *source) update(r gpu.Reading, engine worker.EngineProcess) {
	uses := s.usesOf(engine, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading, s.engine = r, engine
	if len(uses) > 0 {
		s.uses = uses
	}
}

// usesOf returns the GPUs of an engine: those that the operator has named, those of the process that the worker has started, or those of the
// process that listens at the engine's port. The last is for engines of others, and for a command that only asks a service to start one.
func (s *source) usesOf(e worker.EngineProcess, r gpu.Reading) []gpu.Use {
	switch s.devices {
	case "", Auto:
	case All:
		return gpu.AllOf(r.GPUs)
	default:
		return gpu.Visible(s.devices, r.GPUs)
	}
	if found := s.proc.Uses(e.PID, r.GPUs); len(found) > 0 || r.None != "" {
		return found
	}
	return s.proc.Uses(s.listenerOf(e, r.Time), r.GPUs)
}

// listenerOf returns the process that listens at the engine's port; 0 if it is not known.
func (s *source) listenerOf(e worker.EngineProcess, now time.Time) int {
	if s.found.url == e.URL && now.Before(s.found.next) {
		return s.found.pid
	}
	s.found = listener{url: e.URL, next: now.Add(lookAgain)}
	if port, ok := localPort(e.URL); ok {
		s.found.pid, _ = s.proc.Listener(port)
	}
	return s.found.pid
}

// localPort returns the port of a URL, unless its host is an address of another machine.
func localPort(address string) (int, bool) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return 0, false
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && !isOwn(ip) {
		return 0, false
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		port = map[string]int{"http": 80, "https": 443}[u.Scheme]
	}
	return port, port > 0
}

func isOwn(ip net.IP) bool {
	if ip.IsLoopback() {
		return true
	}
	own, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}

// stateOf says what is known of the GPUs.
func (s *source) stateOf(r gpu.Reading, uses []gpu.Use) worker.GPUState {
	state := worker.GPUState{Driver: r.Driver, None: r.None}
	for _, u := range uses {
		state.Engine = append(state.Engine, u.UUID)
		if state.Out == "" {
			state.Out = s.verdicts.Problem(u.UUID)
		}
	}
	for i := range r.GPUs {
		g := &r.GPUs[i]
		own := fleet.WorkerGPU{Index: g.Index, UUID: g.UUID, Name: g.Name, MemoryMiB: int(g.MemoryTotal >> 20), Problem: s.verdicts.Problem(g.UUID)}
		for _, part := range g.Instances {
			own.MIG = append(own.MIG, part.UUID)
		}
		state.GPUs = append(state.GPUs, own)
	}
	return state
}

// own returns the incidents of the engine's GPUs: those of others are noted by their own workers. Without GPUs that are known to be the
// engine's, those of a machine's only GPU are.
func (s *source) own(found []fleet.Incident, uses []gpu.Use, r gpu.Reading) []fleet.Incident {
	return slices.DeleteFunc(found, func(i fleet.Incident) bool {
		if len(uses) == 0 {
			return len(r.GPUs) > 1
		}
		return !slices.ContainsFunc(uses, func(u gpu.Use) bool { return u.GPU == i.GPU })
	})
}

// live is Live of worker.GPUSource.
func (s *source) live() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return struct {
		Reading gpu.Reading `json:"reading"`
		Engine  []gpu.Use   `json:"engine"`
	}{s.reading, s.uses}
}
