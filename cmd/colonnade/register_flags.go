package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"colonnade/discovery/engines"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
)

// setPlace sets the names under which the engine is registered.
func (r *registering) setPlace() error {
	c := &r.c
	if c.Colo == "" {
		return errors.New("flag -colo is missing: the colo that the engine belongs to, of a document colos/COLO")
	}
	if c.URL == "" {
		return errors.New("flag -url is missing: the URL at which colo servers reach the engine, such as http://10.0.0.7:8000")
	}
	id, err := engines.EndpointID(c.URL)
	if err != nil {
		return fmt.Errorf("flag -url %s: %w", c.URL, err)
	}
	c.ID = cmp.Or(c.ID, id)
	c.Machine, _ = os.Hostname()
	c.Node = cmp.Or(c.Node, c.Machine+"-"+portOf(c.URL))
	for _, name := range []struct {
		flag, value string
		kind        fleet.Kind
	}{{"colo", c.Colo, fleet.KindColo}, {"pool", c.Pool, fleet.KindPool}, {"id", c.ID, fleet.KindPool}, {"node", c.Node, fleet.KindWorker}} {
		if name.value == "" {
			continue
		}
		invalid := (*document.InvalidError)(nil)
		if err := document.CheckKey(name.kind.Key(name.value)); errors.As(err, &invalid) {
			return fmt.Errorf("flag -%s %q: %s", name.flag, name.value, strings.TrimPrefix(invalid.Reason, "in the key: "))
		}
	}
	r.warnOfLoopback()
	return nil
}

// warnOfLoopback warns of an engine that only this machine reaches, in a fleet that has others.
func (r *registering) warnOfLoopback() {
	if !isLoopback(r.c.URL) || !slices.ContainsFunc(strings.Split(cmp.Or(r.servers, r.store.endpoints), ","), func(u string) bool { return !isLoopback(u) }) {
		return
	}
	r.c.Report(fmt.Sprintf("only colo servers on this machine reach %s: give -url the address that others have for it", r.c.URL))
}

// reachable returns an address that is bound as others reach it: in place of the wildcard address, it has the machine's address towards etcd or the
// server, as nodes do.
func (r *registering) reachable(bound string) string {
	host, port, err := net.SplitHostPort(bound)
	if err != nil || !net.ParseIP(host).IsUnspecified() {
		return bound
	}
	for towards := range strings.SplitSeq(cmp.Or(r.servers, r.store.endpoints), ",") {
		if own, err := node.LocalAddress(towards); err == nil {
			return net.JoinHostPort(own, port)
		}
	}
	return bound
}

func isLoopback(rawURL string) bool {
	host := hostOf(rawURL).Hostname()
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// hostOf parses a URL, which may lack http://.
func hostOf(rawURL string) *url.URL {
	if !strings.Contains(rawURL, "://") {
		rawURL = "http://" + rawURL
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return &url.URL{}
	}
	return u
}

func portOf(rawURL string) string {
	u := hostOf(rawURL)
	return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}

// maxSlots is the largest number of slots that a document accepts.
const maxSlots = 10_000

// setFields sets the fields of the endpoint's document that flags name, and the key that the engine wants.
func (r *registering) setFields() error {
	c := &r.c
	fields, err := endpointFields(r.set)
	if err != nil {
		return err
	}
	switch n, err := strconv.Atoi(r.concurrency); {
	case r.concurrency == "":
	case r.concurrency == "auto":
		fields["concurrency"] = "auto"
	case err != nil || n < 1 || n > maxSlots:
		return fmt.Errorf("flag -concurrency %q: must be auto or a number from 1 to %d", r.concurrency, maxSlots)
	default:
		fields["concurrency"] = n
	}
	c.Fields = fields
	invalid := (*document.InvalidError)(nil)
	if err := c.CheckFields(); errors.As(err, &invalid) {
		reason := invalid.Reason
		if invalid.Value != "" {
			reason = invalid.Value + ": " + reason
		}
		return fmt.Errorf("flag -set %s: %s", invalid.Field, reason)
	} else if err != nil {
		return err
	}
	credential, _ := fields["credential"].(string)
	if name, ok := strings.CutPrefix(credential, "env:"); ok {
		if c.Key = os.Getenv(name); c.Key == "" {
			c.Report(fmt.Sprintf("the variable %s is not set here, so the engine is asked without its API key", name))
		}
	}
	return nil
}

// ownFields are fields of an endpoint that -set does not set, with what does.
var ownFields = map[string]string{
	"url": "use the flag -url", "pool": "use the flag -pool", "concurrency": "use the flag -concurrency",
	"state": "the command writes it: stop the command to drain the engine", "state_reason": "the command writes it",
}

// endpointFields reads the values of -set: fields of an endpoint, and fields or keys below them.
func endpointFields(set []string) (map[string]any, error) {
	fields := map[string]any{}
	for _, one := range set {
		name, text, ok := strings.Cut(one, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("flag -set %q: must be FIELD=VALUE, such as weight=2", one)
		}
		top, key, below := strings.Cut(name, ".")
		if advice := ownFields[top]; advice != "" {
			return nil, fmt.Errorf("flag -set %q: %s is not set here: %s", one, top, advice)
		}
		value := valueOf(text)
		if below {
			value = map[string]any{key: value}
		}
		before, isMap := fields[top].(map[string]any)
		if more, ok := value.(map[string]any); ok && isMap {
			maps.Copy(before, more)
			continue
		}
		if fields[top] != nil {
			return nil, fmt.Errorf("flag -set %q: %s is set twice", one, top)
		}
		fields[top] = value
	}
	return fields, nil
}

// valueOf reads a value: as JSON if it is that, else as text.
func valueOf(text string) any {
	var value any
	if json.Unmarshal([]byte(text), &value) == nil && value != nil {
		return value
	}
	return text
}
