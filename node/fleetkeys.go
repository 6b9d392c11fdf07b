package node

import (
	"context"
	"slices"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/reload"
)

// keyInterval is how often a node looks for a change of its key file. The path of requests does not look.
const keyInterval = time.Second

// FleetKeyState says which keys of the fleet a node has, by their ids (see [hop.Keys.IDs]).
type FleetKeyState struct {
	Signs   string   `json:"signs"`             // with this key
	Accepts []string `json:"accepts"`           // these keys, among them that of Signs
	Problem string   `json:"problem,omitempty"` // why the key file could not be read; the keys above stay in force
}

// fleetKeys replaces the keys of the fleet when their file has changed.
type fleetKeys struct {
	config *Config
	file   *reload.Files[*hop.Keys] // nil = the keys are from no file
}

// openFleetKeys reads the key file. The keys that the configuration has are in force until fleetKeys.run replaces them.
func openFleetKeys(c *Config) (*fleetKeys, error) {
	if c.KeyFile == "" {
		return &fleetKeys{config: c}, nil
	}
	file, err := reload.Open(reload.Source[*hop.Keys]{
		Name: "the fleet keys (flag -key-file)", Paths: []string{c.KeyFile}, Read: hop.ReadKeyFile, Logger: c.Logger,
		Parse: func(contents [][]byte, _ *reload.Version[*hop.Keys]) (*hop.Keys, error) {
			return hop.ParseKeys(c.KeyFile, contents[0])
		},
	})
	return &fleetKeys{config: c, file: file}, err
}

// run calls replaced after the keys were replaced. A file that cannot be read, has no key or can be read by others changes nothing.
func (f *fleetKeys) run(ctx context.Context, replaced func()) error {
	if f.file == nil {
		return nil
	}
	look := time.NewTicker(keyInterval)
	defer look.Stop()
	for {
		if next := f.file.Current().Value; !slices.Equal(next.IDs(), f.config.Keys.IDs()) {
			f.replace(next)
			replaced()
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (f *fleetKeys) replace(next *hop.Keys) {
	before, now := f.config.Keys.IDs(), next.IDs()
	f.config.Keys.Replace(next)
	kept := slices.ContainsFunc(now, func(id string) bool { return slices.Contains(before, id) })
	log := f.config.Logger.Info
	if !kept { // the steps of a rotation keep one
		log = f.config.Logger.Warn
	}
	log("fleet keys replaced", "signs", now[0], "accepts", now, "before", before, "kept_one", kept)
}

// state returns the keys in force. It is nil for a process that has no other nodes.
func (f *fleetKeys) state() *FleetKeyState {
	if f == nil {
		return nil
	}
	ids := f.config.Keys.IDs()
	s := &FleetKeyState{Signs: ids[0], Accepts: ids}
	if f.file != nil {
		if err := f.file.Err(); err != nil {
			s.Problem = err.Error()
		}
	}
	return s
}
