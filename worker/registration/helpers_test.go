package registration_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	"colonnade/worker"
	"colonnade/worker/registration"
)

// ttl is so long that a slow machine does not let leases expire.
const ttl = 6 * time.Second

const (
	ownURL      = "http://10.0.0.7:8000"
	workerKey   = "workers/gpu-7"
	endpointKey = "endpoints/ams/10.0.0.7-8000"
)

// store is an etcd with a colo, and a client that writes to it.
type store struct {
	*etcdtest.Server
	t      *testing.T
	client *etcd.Client
	log    testkit.SyncBuffer
}

func start(t *testing.T) *store {
	t.Helper()
	t.Parallel()
	server := etcdtest.Start(t)
	s := &store{Server: server, t: t, client: server.Client(t)}
	s.put("colos/ams", "state: active")
	return s
}

func (s *store) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	s.t.Cleanup(cancel)
	return ctx
}

func (s *store) put(key, value string) {
	s.t.Helper()
	if _, err := s.client.Put(s.ctx(), etcd.DefaultPrefix+key, value); err != nil {
		s.t.Fatal(err)
	}
}

// get returns a key, or nil.
func (s *store) get(key string) *mvccpb.KeyValue {
	s.t.Helper()
	answer, err := s.client.Get(s.ctx(), etcd.DefaultPrefix+key)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(answer.Kvs) == 0 {
		return nil
	}
	return answer.Kvs[0]
}

func (s *store) value(key string) string {
	s.t.Helper()
	if kv := s.get(key); kv != nil {
		return string(kv.Value)
	}
	return ""
}

func (s *store) config() registration.Config {
	return registration.Config{Client: s.client, Colo: "ams", Node: "gpu-7", Machine: "gpu-7", TTL: ttl, Logger: slog.New(slog.NewTextHandler(&s.log, nil))}
}

// state returns what a worker of this name says while its engine has slots; with 0 it is taken out.
func state(node, pool string, slots int) worker.Registration {
	r := worker.Registration{
		Worker: fleet.Worker{
			Node: node, Colo: "ams", Boot: node + "-b1", Machine: "machine-1", Admin: "10.0.0.7:9100",
			Protocol: fleet.ProtocolRange{Min: fleet.OldestProtocol, Max: fleet.Protocol},
			Engine:   fleet.WorkerEngine{Endpoint: "10.0.0.7-8000", Pool: pool, URL: ownURL, State: fleet.WorkerServing},
		},
		Endpoint: document.Raw{Key: endpointKey, Value: fmt.Appendf(nil, "url: %s\npool: %s\nconcurrency: %d\n", ownURL, pool, slots)},
		Models: []document.Raw{
			{Key: "pools/" + pool, Value: []byte("queue: {limit: 256}\n")},
			{Key: "models/llama", Value: fmt.Appendf(nil, "# An engine serves it.\ntype: chat\npool: %s\n", pool)},
		},
	}
	if slots == 0 {
		r.Worker.Engine.State = fleet.WorkerDraining
		r.Endpoint.Value = append(r.Endpoint.Value, "state: draining\n"...)
	}
	return r
}

// running is a registry that runs.
type running struct {
	worker.Registry
	s     *store
	ended chan error
	stop  func(cause error)
}

func (s *store) run(c registration.Config) *running {
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &running{registration.InEtcd(c), s, make(chan error, 1), cancel}
	var done sync.WaitGroup
	done.Go(func() { r.ended <- r.Run(ctx) })
	s.t.Cleanup(func() { cancel(nil); done.Wait() })
	return r
}

// put sets a state, and waits until it is stored.
func (r *running) put(state worker.Registration) {
	r.s.t.Helper()
	r.Set(state)
	if err := r.Stored(r.s.ctx()); err != nil {
		r.s.t.Fatal(err)
	}
}

// end ends Run, which must succeed.
func (r *running) end(cause error) {
	r.s.t.Helper()
	r.stop(cause)
	if err := r.wait(); err != nil {
		r.s.t.Errorf("Run: %v", err)
	}
}

func (r *running) wait() error {
	r.s.t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(testkit.Timeout):
		r.s.t.Fatal("Run does not end")
		return nil
	}
}

// fails checks that Run ends with an error that has all texts.
func (r *running) fails(texts ...string) error {
	r.s.t.Helper()
	err := r.wait()
	if err == nil {
		err = errors.New("success")
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			r.s.t.Errorf("Run ended with %q, which does not say %q", err, text)
		}
	}
	return err
}
