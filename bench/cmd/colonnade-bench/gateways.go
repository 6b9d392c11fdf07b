package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"colonnade/bench"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/onebox"
)

// benchColo is the only colo of the benchmark's fleet.
const benchColo = "bench"

// sharedFleet is one fleet for all gateways made of Colonnade's own parts, each with a pool and a model of its own. It is
// started for the first of them and ends with the last.
type sharedFleet struct {
	mu     sync.Mutex // guards the fields below
	users  int
	fleet  *onebox.Fleet
	cancel context.CancelFunc
	ended  chan error
}

// queueVariant is what differs between these gateways.
type queueVariant struct {
	fields map[string]any // of the pool's queue
	equal  bool           // accounts have neither weights nor priorities
}

// ownGateways are the gateways made of Colonnade's own parts.
func ownGateways() []bench.Gateway {
	f := &sharedFleet{}
	gateway := func(name, about string, v queueVariant) bench.Gateway {
		return bench.Gateway{Name: name, About: about, Judged: name == "colonnade",
			Start: func(ctx context.Context, s bench.Setup) (*bench.Target, error) { return f.serve(ctx, s, v) }}
	}
	return []bench.Gateway{
		gateway("colonnade", "An entry and a colo server in one process, with one queue for all engines that is fair by the tokens "+
			"that each account uses.",
			queueVariant{fields: map[string]any{"discipline": fleet.DisciplineFair, "cost": fleet.CostTokens}}),
		gateway("no queue", "The same without a queue: a request that finds no free slot is refused.",
			queueVariant{fields: map[string]any{"limit": 0}}),
		gateway("fifo", "The same with a FIFO queue: first come, first served, whatever the account.",
			queueVariant{fields: map[string]any{"discipline": fleet.DisciplineFIFO, "cost": fleet.CostRequests}, equal: true}),
		gateway("round robin", "The same with round robin: accounts take turns request by request, whatever a request costs.",
			queueVariant{fields: map[string]any{"discipline": fleet.DisciplineFair, "cost": fleet.CostRequests}}),
	}
}

// serve puts a pool in front of the engines of a setup.
func (f *sharedFleet) serve(ctx context.Context, s bench.Setup, v queueVariant) (*bench.Target, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users == 0 {
		if err := f.startLocked(ctx, s.Dir); err != nil {
			return nil, err
		}
	}
	f.users++
	docs, err := benchDocuments(s, v)
	if err == nil {
		err = f.fleet.Apply(ctx, docs)
	}
	if err != nil {
		return nil, errors.Join(err, f.releaseLocked())
	}
	page := "http://" + onebox.Local(f.fleet.Colos[0].Admin) + "/debug/pools?accounts=0"
	return &bench.Target{
		URL:  f.fleet.URL(),
		Held: func(ctx context.Context) (held, queued int, err error) { return poolState(ctx, page, s.Model) },
		Stop: func() error {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.releaseLocked()
		},
	}, nil
}

func (f *sharedFleet) startLocked(ctx context.Context, dir string) error {
	config := onebox.Config{
		Listen: "127.0.0.1:0", Etcd: "127.0.0.1:0", Colos: []string{benchColo}, Dir: filepath.Join(dir, "fleet"), Drain: time.Second,
		Logger: func(string) *slog.Logger { return slog.New(slog.DiscardHandler) },
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx)) // Stop ends the fleet, after the load
	f.cancel, f.ended = cancel, make(chan error, 1)
	started := make(chan *onebox.Fleet, 1)
	go func() { f.ended <- onebox.Run(running, config, func(up *onebox.Fleet) { started <- up }) }()
	select {
	case f.fleet = <-started:
		return nil
	case err := <-f.ended:
		cancel()
		return fmt.Errorf("cannot start a fleet: %w", err)
	case <-ctx.Done():
		cancel()
		return errors.Join(ctx.Err(), <-f.ended)
	}
}

// releaseLocked ends the fleet after its last user.
func (f *sharedFleet) releaseLocked() error {
	f.users--
	if f.users > 0 {
		return nil
	}
	f.cancel()
	return <-f.ended
}

// benchDocuments are a pool over the setup's engines, a model of the same name, and its accounts.
func benchDocuments(s bench.Setup, v queueVariant) ([]document.Raw, error) {
	queue := map[string]any{"limit": s.Queue.Limit, "per_account": cmp.Or(s.Queue.PerAccount, s.Queue.Limit),
		"max_wait": s.Queue.MaxWait.String(), "promote_after": (s.Queue.MaxWait / 2).String()}
	for field, value := range v.fields {
		queue[field] = value
	}
	all := map[string]any{
		"pools/" + s.Model:  map[string]any{"queue": queue},
		"models/" + s.Model: map[string]any{"pool": s.Model, "type": fleet.TypeChat},
	}
	for i, e := range s.Engines {
		all[fmt.Sprintf("endpoints/%s/%s-%d", benchColo, s.Model, i+1)] = map[string]any{
			"url": e.URL, "pool": s.Model, "engine": fleet.EngineOpenAI, "concurrency": e.Slots,
			"health": map[string]any{"path": "/health", "interval": "1s", "timeout": "1s"},
		}
	}
	for _, a := range s.Accounts {
		if v.equal {
			a.Weight, a.Priority = 1, fleet.PriorityStandard
		}
		name := s.Model + "-" + a.Name // the accounts of this gateway
		all[string(fleet.KindAccount)+"/"+name] = map[string]any{
			"weight": max(1, a.Weight), "priority": cmp.Or(a.Priority, fleet.PriorityStandard),
		}
		all[string(fleet.KindAPIKey)+"/"+name] = fleet.APIKey{Account: name, SHA256: sha256.Sum256([]byte(a.Key))}
	}
	var docs []document.Raw
	for key, value := range all {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("cannot write the document %s: %w", key, err)
		}
		docs = append(docs, document.Raw{Key: key, Value: text})
	}
	return docs, nil
}

// poolState reads the requests that a pool has running and waiting from a colo server's /debug/pools.
func poolState(ctx context.Context, page, pool string) (held, queued int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return 0, 0, err
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return 0, 0, fmt.Errorf("cannot read the state of the pool %s: %w", pool, err)
	}
	defer answer.Body.Close()
	var pools []struct {
		Pool         string
		Held, Queued int
	}
	if err := json.NewDecoder(answer.Body).Decode(&pools); err != nil {
		return 0, 0, fmt.Errorf("cannot read the state of the pool %s: %w", pool, err)
	}
	for _, p := range pools {
		if p.Pool == pool {
			return p.Held, p.Queued, nil
		}
	}
	return 0, 0, fmt.Errorf("the colo server has no pool %s", pool)
}
