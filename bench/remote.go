package bench

import (
	"errors"
	"fmt"
	"strings"
)

// defaultSlots is what an engine has that is started for a gateway of which nothing is said.
const defaultSlots = 4

// gateway is the one at a URL.
func (m *Remote) gateway() *Gateway {
	about := "A gateway that runs at " + m.URL + ", asked for the model " + m.Model + "."
	if len(m.Engines) > 0 {
		about += " Its engines are simulated ones at " + strings.Join(m.Engines, ", ") + "."
	} else {
		about += " Its engines are its own: what only they can tell is not measured."
	}
	return &Gateway{Name: "remote", About: about, Judged: true}
}

// connect makes the arena one of a gateway that runs already.
func (a *runner) connect(m *Remote) (err error) {
	if len(m.Keys) == 0 {
		return errors.New("no key is known for the gateway: name one with -key")
	}
	a.target = &Target{URL: m.URL}
	if a.client, err = newClient(m.URL, m.Model); err != nil {
		return err
	}
	for i, key := range m.Keys {
		a.keys[fmt.Sprintf("key %d", i+1)] = key
	}
	if len(m.Engines) == 0 {
		return nil
	}
	slots := defaultSlots
	if m.Slots > 0 {
		slots = max(1, m.Slots/len(m.Engines))
	}
	a.engines, err = startEngines(m.Engines, slots)
	return err
}
