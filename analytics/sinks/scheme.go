package sinks

import (
	"strings"
	"time"
)

// Scheme is a kind of sink, as the scheme of a URL names it.
type Scheme struct {
	Name    string
	Example string   // of a URL
	Heavy   bool     // its client is large: only `colonnade ship` has it
	Params  []string // settings that only this scheme has

	Compression string        // the default; empty = the scheme has no such setting
	BatchEvents int           // the default; 0 = DefaultBatchEvents
	BatchBytes  int           // the default; 0 = DefaultBatchBytes
	MaxBytes    int           // of a batch at most; 0 = MaxBatchBytes
	Every       time.Duration // the default; 0 = DefaultEvery

	opaque     bool // the URL has a path only
	secretPath bool // the path may hold a token
}

// Schemes returns all schemes, in the order of the documentation.
func Schemes() []Scheme {
	return []Scheme{
		{Name: "file", Example: "file:/var/log/colonnade/events.jsonl", Params: []string{"max_bytes", "keep"}, opaque: true},
		{Name: "unix", Example: "unix:/run/vector/events.sock", opaque: true},
		{Name: "http", Example: "http://collector:8080/events", Params: []string{"auth", "query"}, Compression: "gzip", secretPath: true},
		{Name: "https", Example: "https://collector/events?credential=env:COLLECTOR_TOKEN", Params: []string{"auth", "query"}, Compression: "gzip", secretPath: true},
		{Name: "otlp", Example: "otlp://collector:4318", Params: []string{"auth"}, Compression: "gzip", secretPath: true},
		{Name: "otlps", Example: "otlps://collector:4318", Params: []string{"auth"}, Compression: "gzip", secretPath: true},
		{Name: "nats", Example: "nats://nats:4222/colonnade.events", Params: []string{"tls", "ca"}},
		{Name: "kafka", Example: "kafka://broker-1:9092,broker-2:9092/events", Heavy: true, Params: []string{"tls", "sasl", "ca"}, Compression: "zstd"},
		{Name: "postgres", Example: "postgres://user@db:5432/colonnade?credential=env:PGPASSWORD", Heavy: true,
			Params: []string{"table", "sslmode", "sslrootcert"}},
		{Name: "clickhouse", Example: "clickhouse://user@db:8123/colonnade?credential=env:CLICKHOUSE_PASSWORD", Heavy: true,
			Params: []string{"table", "tls", "ca"}, Compression: "zstd", BatchEvents: 10_000, Every: 5 * time.Second},
		{Name: "s3", Example: "s3://bucket/prefix?region=eu-central-1", Heavy: true, Params: []string{"region", "endpoint"},
			BatchEvents: 50_000, BatchBytes: 32 << 20, MaxBytes: 64 << 20, Every: 5 * time.Minute},
	}
}

// schemeOf returns the scheme of a name; nil if there is none.
func schemeOf(name string) *Scheme {
	for _, s := range Schemes() {
		if s.Name == name {
			return &s
		}
	}
	return nil
}

func schemeNames() string {
	var names []string
	for _, s := range Schemes() {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

func exampleOf(name string) string { return schemeOf(name).Example }
