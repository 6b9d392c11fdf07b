package engines

import (
	"encoding/json"
	"net"
	"net/url"
	"strconv"
	"strings"

	"colonnade/fleet"
)

// eventsConfig is what vLLM and SGLang say about the events of their KV caches: the value of --kv-events-config.
type eventsConfig struct {
	Enabled   *bool  `json:"enable_kv_cache_events"` // nil: SGLang, which has no such field
	Publisher string `json:"publisher"`
	Endpoint  string `json:"endpoint"`
}

// defaultEvents is where both engines publish unless they are configured otherwise.
const defaultEvents = "tcp://*:5557"

// address returns where the ranks of an engine publish, as documents have it; "" if they do not, or bind no port that others reach.
func (c eventsConfig) address(engineURL string, ranks int) string {
	u, err := url.Parse(engineURL)
	if err != nil || c.Publisher != "zmq" || c.Enabled != nil && !*c.Enabled {
		return ""
	}
	if c.Endpoint == "" {
		c.Endpoint = defaultEvents
	}
	bound, port, found := cutLast(c.Endpoint, ":")
	first, err := strconv.ParseUint(port, 10, 16)
	if !found || err != nil || bound != "tcp://*" && bound != "tcp://[::]" { // both engines connect to any other address
		return ""
	}
	address := "tcp://" + net.JoinHostPort(u.Hostname(), port)
	if ranks > 1 {
		address += "-" + strconv.FormatUint(first+uint64(ranks)-1, 10)
	}
	if _, ok := fleet.KVEventAddresses(address); !ok {
		return ""
	}
	return address
}

func cutLast(s, sep string) (before, after string, found bool) {
	at := strings.LastIndex(s, sep)
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+len(sep):], true
}

// eventsOf reads the configuration that SGLang shows as it was given, as a text of JSON; anything else is not known.
func eventsOf(shown json.RawMessage) (c eventsConfig) {
	var flag string
	if json.Unmarshal(shown, &flag) == nil {
		shown = json.RawMessage(flag)
	}
	_ = json.Unmarshal(shown, &c)
	return c
}
