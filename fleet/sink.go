package fleet

import (
	"strconv"
	"strings"
)

// Sink has every node send the events that it keeps to a receiver outside of the fleet. One that comes from a table is shared: do not modify it.
type Sink struct {
	Name string `json:"-"`
	// Where the events go, with the settings of that scheme in the query: file:NAME (below DATA-DIR/sinks of each node), unix:/PATH, http or https,
	// otlp or otlps, nats.
	URL string `json:"url" is:"text" need:"yes" secret:"yes"`
	// Kinds of events. Default: all.
	Kinds []string `json:"kinds,omitempty" oneof:"inference request forward engine"`
	// Accounts of events. Default: all.
	Accounts []string `json:"accounts,omitempty" is:"name"`
	// Most events in a batch. Default: 1000.
	BatchEvents int `json:"batch_events,omitempty" range:"1,50000"`
	// Most bytes in a batch. Default: 1MiB.
	BatchBytes Bytes `json:"batch_bytes,omitempty" range:"1KiB,4MiB"`
	// Longest time that an event waits for others of its batch. Default: 1s.
	Every Duration `json:"every,omitempty" range:"10ms,10m"`
	// How batches are compressed, where the scheme has a choice. Default: gzip for http, https, otlp and otlps.
	Compression string `json:"compression,omitempty" oneof:"none gzip zstd"`
	// Where each node finds the credential of the receiver: env:COLONNADE_CREDENTIAL_NAME, or file:PATH below its -credentials-dir, which
	// entries need as well.
	Credential string `json:"credential,omitempty" is:"credential" secret:"yes"`
}

// Settings returns what the document says besides the URL, by the names and in the syntax of the settings of the flag -sink.
func (s *Sink) Settings() map[string]string {
	settings := map[string]string{}
	set := func(name, value string, isSet bool) {
		if isSet {
			settings[name] = value
		}
	}
	set("kinds", strings.Join(s.Kinds, ","), len(s.Kinds) > 0)
	set("accounts", strings.Join(s.Accounts, ","), len(s.Accounts) > 0)
	set("batch_events", strconv.Itoa(s.BatchEvents), s.BatchEvents > 0)
	set("batch_bytes", strconv.FormatInt(int64(s.BatchBytes), 10), s.BatchBytes > 0)
	set("every", s.Every.String(), s.Every > 0)
	set("compression", s.Compression, s.Compression != "")
	set("credential", s.Credential, s.Credential != "")
	return settings
}
