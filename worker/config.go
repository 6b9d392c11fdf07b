package worker

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"colonnade/discovery/engines"
)

// Config is what a worker does.
type Config struct {
	Registry Registry
	GPUs     GPUSource

	Colo    string // that the engine is registered in
	Node    string // name of the worker's document
	Machine string // name of the machine
	Version string // of this software

	URL string // of the engine, as colo servers reach it
	ID  string // of the endpoint; "" = by the URL
	// Pool of the engine; "" = that of the document of its model, or else one by its models.
	Pool string
	// Fields of the endpoint's document that the operator has set: see engines.Place.
	Fields   map[string]any
	Key      string // API key that the engine wants from the worker; "" = none
	NoModels bool   // do not create documents of models and pools

	Command []string // that starts the engine; none = it runs already, and is never stopped
	Restart bool     // the engine when it has ended by itself
	// KillCommand is run by sh where the engine is killed, for what no signal reaches, such as a container; "" = none.
	KillCommand string

	Drain       time.Duration // longest time that requests in flight may take at the end
	StopTimeout time.Duration // longest time from SIGTERM to SIGKILL
	// StartTimeout is the time without a first answer after which an engine that the worker has started is ended; 0 = none.
	StartTimeout time.Duration
	HungAfter    time.Duration // time without an answer after which an engine counts as hung; 0 = never

	Admin          net.Listener      // of the admin pages, which Run closes; nil = none
	AdminAddress   string            // at which others reach them; "" = that of the listener
	AdminHosts     []string          // names under which they are reached, besides localhost and IP addresses
	Stdout, Stderr io.Writer         // get the engine's output
	Report         func(line string) // gets lines for the operator, one after the other; nil = Logger gets them
	Logger         *slog.Logger      // nil = none
}

// DefaultHungAfter is the default of colonnade register. Engines that are well pause their health paths for less, while they compile or load.
const DefaultHungAfter = 2 * time.Minute

// enginePrefix stands before each line of the engine's output.
const enginePrefix = "engine | "

// complete checks the settings and sets the defaults.
func (c *Config) complete() error {
	url, err := engines.NormalURL(c.URL)
	if err != nil {
		return err
	}
	c.URL = url
	if c.Registry.Run == nil || c.Registry.Set == nil || c.Registry.Stored == nil || c.Registry.InFlight == nil {
		return errors.New("a worker needs a registry")
	}
	if c.ID == "" {
		if c.ID, err = engines.EndpointID(c.URL); err != nil {
			return err
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Report == nil {
		logger := c.Logger
		c.Report = func(line string) { logger.Info("engine", "state", line) }
	}
	if c.Stdout == nil {
		c.Stdout = io.Discard
	}
	if c.Stderr == nil {
		c.Stderr = io.Discard
	}
	return nil
}

// place returns where the engine is registered, in a pool.
func (c *Config) place(pool, out string) engines.Place {
	return engines.Place{Colo: c.Colo, ID: c.ID, Pool: pool, Fields: c.Fields, Out: out}
}

// CheckFields returns an error for fields that no endpoint may have.
func (c *Config) CheckFields() error {
	probe := &engines.Engine{URL: "http://127.0.0.1:1", Kind: "openai", Models: []engines.Model{{Name: "m", Upstream: "m", Type: "chat"}}}
	_, _, err := engines.Place{Colo: "colo", ID: "id", Pool: c.Pool, Fields: c.Fields}.Register(probe)
	return err
}

// ExitError is the end of the worker because its engine has ended. Status is the exit status of the engine, 128+n for one that was ended by
// the signal n.
type ExitError struct {
	Status int
	Reason string // one sentence
}

// Error returns the reason.
func (e *ExitError) Error() string { return e.Reason }

var errAborted = errors.New("the worker has been ended at once")
