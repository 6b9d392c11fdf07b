package sinks

import (
	"log/slog"
	"net/url"
	"time"
)

// Defaults of the settings that all sinks have, and their bounds.
const (
	DefaultBatchEvents = 1000
	DefaultBatchBytes  = 1 << 20
	DefaultEvery       = time.Second

	MaxBatchEvents = 50_000
	MaxBatchBytes  = 4 << 20
	MaxEvery       = 10 * time.Minute
)

// Spec describes a sink.
type Spec struct {
	Name   string   // of the position, the metrics and the logs; safe as a file name
	Scheme *Scheme  // of the URL
	URL    *url.URL // without settings, and without a password

	Kinds    []string // of the events; empty = all
	Accounts []string // of the events; empty = all

	BatchEvents int           // at most in a batch
	BatchBytes  int           // at most in a batch, unless a single event is longer
	Every       time.Duration // longest time that an event waits for others of its batch

	Compression string            // none, gzip or zstd; empty where the scheme has no such setting
	Credential  string            // env:NAME or file:PATH; empty = none
	Params      map[string]string // settings of this scheme alone; the defaults are not filled in
}

// Param returns a setting of the scheme, or what stands for it.
func (s *Spec) Param(name, otherwise string) string {
	if value, ok := s.Params[name]; ok {
		return value
	}
	return otherwise
}

// Environment is what a sink needs besides its description.
type Environment struct {
	Node    string // whose events it gets
	DataDir string // of the node
	Files   string // directory of files with relative names; empty = the working directory
	Logger  *slog.Logger

	// Credential reads what the credential of the description names, at each call, so that a new one is used; nil = there is none.
	Credential func() (string, error)
}
