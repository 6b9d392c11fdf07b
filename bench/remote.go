package bench

import (
	"errors"
	"fmt"
	"strings"
)

// defaultSlots are those of each engine that is started for a remote gateway.
const defaultSlots = 4

// gateway is the gateway at the URL.
func (m *Remote) gateway() *Gateway {
	about := "A gateway that runs at " + m.URL + ", asked for the model " + m.Model + "."
	if len(m.Engines) > 0 {
		about += " Its engines are simulated, at " + strings.Join(m.Engines, ", ") + "."
	} else {
		about += " It has engines of its own, so figures that only simulated engines can give are not measured."
	}
	return &Gateway{Name: "remote", About: about, Judged: true}
}

// connect makes the runner one of a gateway that already runs.
func (r *runner) connect(m *Remote) (err error) {
	if len(m.Keys) == 0 {
		return errors.New("there is no key for the gateway: name one with -key")
	}
	r.target = &Target{URL: m.URL}
	if r.client, err = newClient(m.URL, m.Model); err != nil {
		return err
	}
	for i, key := range m.Keys {
		r.keys[fmt.Sprintf("key %d", i+1)] = key
	}
	if len(m.Engines) == 0 {
		return nil
	}
	slots := defaultSlots
	if m.Slots > 0 {
		slots = max(1, m.Slots/len(m.Engines))
	}
	r.engines, err = startEngines(m.Engines, slots)
	return err
}
