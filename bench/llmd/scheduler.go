package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	k8stypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/backend"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/backend/metrics"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/multi/prefix"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/picker"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/profile"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/scorer"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/types"
)

// These are the weights of default-plugins.yaml.
const (
	queueWeight  = 2
	usageWeight  = 2
	prefixWeight = 3
)

const model = "model"

// scheduler is llm-d's scheduler for one pool. It is not safe for concurrent use.
type scheduler struct {
	scheduler *scheduling.Scheduler
	prefix    *prefix.Plugin
	chosen    map[string]decision // by ID, until the request is sent
}

type decision struct {
	request *types.LLMRequest
	result  *types.SchedulingResult
}

func newScheduler(ctx context.Context) *scheduler {
	p := prefix.New(ctx, prefix.DefaultConfig)
	one := framework.NewSchedulerProfile().WithScorers(
		framework.NewWeightedScorer(scorer.NewQueueScorer(), queueWeight),
		framework.NewWeightedScorer(scorer.NewKVCacheUtilizationScorer(), usageWeight),
		framework.NewWeightedScorer(p, prefixWeight),
	).WithPicker(picker.NewMaxScorePicker(picker.DefaultMaxNumOfEndpoints))
	return &scheduler{
		prefix: p, chosen: map[string]decision{},
		scheduler: scheduling.NewSchedulerWithConfig(scheduling.NewSchedulerConfig(profile.NewSingleProfileHandler(), map[string]*framework.SchedulerProfile{"default": one})),
	}
}

// choose returns the index of the endpoint that a request gets.
func (s *scheduler) choose(ctx context.Context, c *call) (int, error) {
	pods := make([]types.Pod, len(c.Endpoints))
	for i, e := range c.Endpoints {
		pods[i] = e.pod()
	}
	request := &types.LLMRequest{
		RequestId: c.ID, TargetModel: model, Body: &types.LLMRequestBody{Completions: &types.CompletionsRequest{Prompt: string(c.Prompt)}},
	}
	result, err := s.scheduler.Schedule(ctx, request, pods)
	if err != nil {
		return 0, fmt.Errorf("cannot choose an endpoint for request %s: %w", c.ID, err)
	}
	s.chosen[c.ID] = decision{request, result}
	name := result.ProfileResults[result.PrimaryProfileName].TargetPods[0].GetPod().PodName
	return slices.IndexFunc(c.Endpoints, func(e endpoint) bool { return e.Name == name }), nil
}

// sent notes that a request was sent to the endpoint that choose has returned last. The index notes it in a goroutine that nothing waits for,
// so sent returns when there are no more goroutines than before.
func (s *scheduler) sent(ctx context.Context, id string) error {
	d, ok := s.chosen[id]
	if !ok {
		return fmt.Errorf("request %s was sent, but no endpoint was chosen for it", id)
	}
	delete(s.chosen, id)
	before := runtime.NumGoroutine()
	s.prefix.PreRequest(ctx, d.request, d.result)
	for runtime.NumGoroutine() > before {
		runtime.Gosched()
	}
	return nil
}

func (e *endpoint) pod() types.Pod {
	m := metrics.NewMetricsState()
	m.WaitingQueueSize, m.RunningQueueSize, m.KVCacheUsagePercent = e.Waiting, e.Running, e.Usage
	m.CacheBlockSize, m.CacheNumGPUBlocks = e.BlockTokens, e.Blocks
	return &types.PodMetrics{Pod: &backend.Pod{NamespacedName: k8stypes.NamespacedName{Namespace: "bench", Name: e.Name}, PodName: e.Name}, MetricsState: m}
}
