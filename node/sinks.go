package node

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
	"colonnade/analytics/sinks/light"
	"colonnade/fleet"
	"colonnade/forwarding/reload"
)

const (
	// sinkFlush is how long a node that stops, or a sink that is changed, still sends what is there to a sink that takes it.
	sinkFlush = 5 * time.Second
	// maxSinkRate is how many events a sink gets in a second at most: more than requests make, so that a backlog shrinks, and few enough that
	// requests have the processors.
	maxSinkRate = 51_000
	// sinkRetry is how often a sink that could not be opened is tried again.
	sinkRetry = 10 * time.Second
	// maxSinkCredential bounds the file of a credential, in bytes.
	maxSinkCredential = 16 << 10
)

// SinkState is a sink of the node's events.
type SinkState struct {
	ship.Stats
	Document string `json:"document,omitempty"` // its key; empty = the sink is one of the flag -sink
	Problem  string `json:"problem,omitempty"`  // why it is not open, and what to do
}

// shippers send the events of the node to the sinks of its flags and of the documents, beside the requests.
type shippers struct {
	config  *Config
	flags   []runningSink // as they are wanted
	table   func() *fleet.Table
	changed func() <-chan struct{}

	mu      sync.Mutex // guards the fields below
	running map[string]*runningSink
}

// runningSink is a sink that is wanted. Without a shipper it could not be opened.
type runningSink struct {
	spec     *sinks.Spec
	document string
	problem  string
	shipper  *ship.Shipper
	end      context.CancelFunc
	ended    chan struct{}
}

// checkSinks refuses the flag -sink of a node that keeps no events: what a sink misses there is lost for good, and no correction brings it
// back. With a data directory, a flag that cannot be used is a problem of its sink alone, as a document is: see sinksOfFlags.
func (c *Config) checkSinks() error {
	if len(c.Sinks) > 0 && c.DataDir == "" {
		return errors.New("flag -sink: events are sent from the data directory, and there is none: set -data-dir")
	}
	return nil
}

// sinksOfFlags returns the sinks of the flags -sink. One that cannot be used has its problem, and only a name.
func (c *Config) sinksOfFlags() (all []runningSink) {
	names := map[string]bool{}
	for i, raw := range sinks.Join(c.Sinks) {
		spec, err := sinks.Parse(raw)
		switch {
		case err != nil:
		case spec.Scheme.Heavy:
			err = fmt.Errorf("sink %s: nodes cannot open sinks of the scheme %s, whose client is large: run `colonnade ship -data-dir %s -sink %s:…` beside the node instead",
				spec.Name, spec.Scheme.Name, c.DataDir, spec.Scheme.Name)
		case names[spec.Name]:
			err = fmt.Errorf("two sinks have the name %s: give one of them another by the setting name=…", spec.Name)
		}
		sink := runningSink{spec: spec}
		if err != nil {
			sink = runningSink{spec: &sinks.Spec{Name: sinks.NameOf(raw)}, problem: ofFlag(err)}
		}
		if names[sink.spec.Name] { // so that operators see both
			sink.spec.Name = fmt.Sprintf("%s (%d)", sink.spec.Name, i+1)
		}
		names[sink.spec.Name] = true
		all = append(all, sink)
	}
	return all
}

func ofFlag(err error) string { return "flag -sink: " + err.Error() }

// newShippers returns the shippers of a node whose settings were checked.
func (r *runtime) newShippers() *shippers {
	return &shippers{
		config: &r.config, flags: r.config.sinksOfFlags(), running: map[string]*runningSink{},
		table:   func() *fleet.Table { return r.watcher.Table() },
		changed: func() <-chan struct{} { return r.watcher.Changed() },
	}
}

// run ships until ctx is done, and then sends for a while what is there.
func (s *shippers) run(ctx context.Context) error {
	retry := time.NewTicker(sinkRetry)
	defer retry.Stop()
	for ctx.Err() == nil {
		changed := s.changed()
		s.apply()
		select {
		case <-changed:
		case <-retry.C:
		case <-ctx.Done():
		}
	}
	s.stop(func(*runningSink) bool { return true })
	return nil
}

// apply opens the sinks that are wanted, and ends those that are not, or are wanted with other settings.
func (s *shippers) apply() {
	wanted := s.wanted()
	s.stop(func(r *runningSink) bool {
		w := wanted[r.spec.Name]
		return w == nil || w.problem != "" || !reflect.DeepEqual(w.spec, r.spec)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, w := range wanted {
		before := s.running[name]
		if before != nil && before.shipper != nil {
			continue
		}
		if w.problem == "" {
			if err := s.start(w); err != nil {
				w.problem = err.Error()
				if w.document == "" {
					w.problem = ofFlag(err)
				}
			}
		}
		if w.problem != "" && (before == nil || before.problem != w.problem) {
			s.config.Logger.Error("cannot open sink; its events are kept", "sink", name, "document", w.document, "error", w.problem)
		}
		s.running[name] = w
	}
	for name := range s.running {
		if wanted[name] == nil {
			delete(s.running, name)
		}
	}
}

// wanted returns the sinks of flags and documents, by name. A flag goes before a document of its name.
func (s *shippers) wanted() map[string]*runningSink {
	wanted := map[string]*runningSink{}
	for _, flag := range s.flags {
		wanted[flag.spec.Name] = &runningSink{spec: flag.spec, problem: flag.problem}
	}
	for _, d := range s.table().Sinks() {
		w := &runningSink{document: fleet.KindSink.Key(d.Name), spec: &sinks.Spec{Name: d.Name}}
		spec, err := sinks.ParseDocument(d.Name, d.URL, d.Settings())
		switch {
		case wanted[d.Name] != nil:
			continue // the flag is what the operator of this machine wants
		case err != nil:
			w.problem = err.Error()
		case s.config.DataDir == "":
			w.problem = "this node keeps no events: start it with -data-dir"
		default:
			w.spec = spec
		}
		wanted[d.Name] = w
	}
	return wanted
}

// start opens a sink and begins to ship.
func (s *shippers) start(w *runningSink) error {
	e := s.environment(w)
	sink, err := light.Open(w.spec, e)
	if err != nil {
		return err
	}
	c := light.Config(w.spec, e, sinkFlush)
	c.MaxRate = maxSinkRate
	if w.shipper, err = ship.Open(c, sink); err != nil {
		return errors.Join(err, sink.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.end, w.ended = cancel, make(chan struct{})
	go func() {
		defer close(w.ended)
		err := errors.Join(w.shipper.Run(ctx), w.shipper.Close())
		if err != nil {
			s.config.Logger.Error("cannot close sink", "sink", w.spec.Name, "error", err)
		}
	}()
	return nil
}

// stop ends the sinks of which is says so, all at once.
func (s *shippers) stop(is func(*runningSink) bool) {
	s.mu.Lock()
	var ending []*runningSink
	for name, r := range s.running {
		if r.shipper != nil && is(r) {
			ending = append(ending, r)
			delete(s.running, name)
		}
	}
	s.mu.Unlock()
	for _, r := range ending {
		r.end()
	}
	for _, r := range ending {
		<-r.ended
	}
}

func (s *shippers) environment(w *runningSink) sinks.Environment {
	e := sinks.Environment{Node: s.config.Node, DataDir: s.config.DataDir, Logger: s.config.Logger}
	credential := w.spec.Credential
	if w.document != "" {
		e.Files = filepath.Join(s.config.DataDir, "sinks", url.PathEscape(s.config.Node))
	}
	switch {
	case credential == "":
	case w.document == "":
		e.Credential = func() (string, error) { return sinks.ReadCredential(credential) }
	default:
		e.Credential = func() (string, error) { return s.credentialOfDocument(credential) }
	}
	return e
}

// credentialOfDocument reads a credential that a document names: documents are written by more people than the node's flags, so that the
// variables have a prefix and the files a directory.
func (s *shippers) credentialOfDocument(credential string) (string, error) {
	if name, isEnv := strings.CutPrefix(credential, "env:"); isEnv {
		value, set := os.LookupEnv(name)
		if !set || !strings.HasPrefix(name, fleet.CredentialVariablePrefix) {
			return "", fmt.Errorf("credential=%s: the environment variable is not set on this node", credential)
		}
		return value, sinks.CheckCredential(credential, value)
	}
	if s.config.CredentialsDir == "" {
		return "", fmt.Errorf("credential=%s: this node has no -credentials-dir: set the flag, or use env:NAME", credential)
	}
	dir := reload.Dir{Path: s.config.CredentialsDir, Never: s.config.ownFiles(), MaxSize: maxSinkCredential}
	text, err := dir.Read(strings.TrimPrefix(credential, "file:"))
	if err != nil {
		return "", fmt.Errorf("credential=%s: %w", credential, err)
	}
	value := strings.TrimRight(string(text), "\r\n")
	return value, sinks.CheckCredential(credential, value)
}
