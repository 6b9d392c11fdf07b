package registration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/testkit"
	"colonnade/worker/registration"
)

// slowModels is an etcd whose models cannot be listed while it is slow.
type slowModels struct {
	clientv3.KV
	slow           atomic.Bool
	fast           chan struct{} // ends the slowness
	waiting, lists atomic.Int32
}

// Get waits while the etcd is slow.
func (s *slowModels) Get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	isList := key == etcd.DefaultPrefix+string(fleet.KindModel)+"/"
	if isList {
		s.lists.Add(1)
	}
	if isList && s.slow.Load() {
		s.waiting.Add(1)
		<-s.fast
	}
	return s.KV.Get(ctx, key, options...)
}

func withSlowModels(s *store) (*slowModels, registration.Config) {
	c := s.config()
	c.Client = s.Client(s.t)
	models := &slowModels{KV: c.Client.KV, fast: make(chan struct{})}
	c.Client.KV = models
	return models, c
}

// A drain does not wait until the documents of models are created that the engine lists later.
func TestDrainBesideFurtherModels(t *testing.T) {
	s := start(t)
	models, c := withSlowModels(s)
	r := s.run(c)
	r.put(state("gpu-7", "llama", 4))
	models.slow.Store(true)
	later := state("gpu-7", "llama", 4)
	later.Models = append(later.Models, document.Raw{Key: "models/lora", Value: []byte("pool: llama\n")})
	r.put(later)
	testkit.WaitFor(t, "the list of models", func() bool { return models.waiting.Load() > 0 })
	r.put(state("gpu-7", "llama", 0))
	if got := s.value(endpointKey); !strings.Contains(got, "draining") {
		t.Errorf("the endpoint is %q", got)
	}
	close(models.fast)
	r.end(nil)
}

// Models that are not created are named in one line, and looked for at intervals, whatever a worker lists next.
func TestRefusedModelsAreBounded(t *testing.T) {
	s := start(t)
	s.put("models/of-operator", "pool: llama")
	models, c := withSlowModels(s)
	begun := time.Now()
	r := s.run(c)
	listed := func(first int) {
		t.Helper()
		full := state("gpu-7", "llama", 4)
		full.Worker.RegisteredBy, full.Models = "gpus 1", nil
		for n := range 50 {
			full.Models = append(full.Models, document.Raw{Key: fmt.Sprint("models/m", first+n), Value: []byte("pool: llama\nregistered_by: gpus 1\n")})
		}
		r.put(full)
	}
	for n := range 20 {
		listed(100 * n)
	}
	r.end(nil)
	if got, most := int(models.lists.Load()), 2+int(time.Since(begun)/(5*time.Second)); got > most {
		t.Errorf("the models were listed %d times, want at most %d", got, most)
	}
	lines := slices.DeleteFunc(strings.Split(s.log.String(), "\n"), func(line string) bool { return !strings.Contains(line, "not created") })
	if len(lines) != 1 || !strings.Contains(lines[0], "models=50 first=models/m0") {
		t.Errorf("logged %q", lines)
	}
}
