package document

import "colonnade/fleet"

// The weakest layers, in the syntax of documents.
const (
	builtinModel = `
type: generic
answer_model: engine
routing:
  algorithm: steps
  steps: [{pick: order}]
retry: {errors: 3, out_of_capacity: 4, hops: 4, forward_below: 256KiB}
timeouts: {connect: 1s, first_byte: 60s, idle: 60s, total: 10m, websocket: 1h}
max_body: 16MiB
max_completions: 128
max_inputs: 2048
`
	builtinPool = `
permits: {max_share: 1.0}
queue: {discipline: fair, cost: tokens, limit: 256, per_account: 64, bytes: 64MiB, max_wait: 10s, spill_wait: 250ms, promote_after: 5s}
balance:
  policy: least_loaded
  load_factor: 1.25
  wait: 0s
  prefix: {by: index, messages: 2, memory: 64MiB, max_age: 1h}
  adapter_pending: 4
  score: {prefix: 3, load: 1, latency: 1}
`
	builtinEndpoint = `
engine: openai
state: active
weight: 1
usage: ask
metrics: {read: auto}
`
	builtinColo = `
state: active
`
	builtinServer = `
state: active
protocol: {min: 1, max: 1}
`
	builtinEntry = `
protocol: {min: 1, max: 1}
`
	builtinWorker = `protocol: {min: 1, max: 1}`
	// The limit stops clients that run away; honest use of a few engines stays below it.
	builtinAccount = `
weight: 1
priority: standard
limits: {concurrent: 1024}
`
	builtinIssuer = `
algorithms: [RS256, ES256]
claims: {account: account, models: models, priority: priority}
`
	builtinCapture = `
max_bytes: 1MiB
`
)

// builtinEngines are the defaults by engine. Concurrency is a conservative guess for one GPU, below what the engine
// accepts: vllm, sglang and tgi batch hundreds of sequences but slow down with each; requests to tei are short; llamacpp
// and ollama serve one sequence at a time unless configured otherwise, and would queue the others themselves. The health
// check of sglang generates a token, and so waits behind a busy batch. All others answer their health path beside what they generate, so
// one that neither does nor streams anything for ten seconds hangs.
const builtinEngines = `
vllm:     {concurrency: 16, health: {path: /health, interval: 5s, timeout: 2s, silence: 10s}, metrics: {path: /metrics}}
sglang:   {concurrency: 16, health: {path: /health, interval: 10s, timeout: 20s, silence: 60s}, metrics: {path: /metrics}}
tgi:      {concurrency: 16, health: {path: /health, interval: 5s, timeout: 2s, silence: 10s}, metrics: {path: /metrics}}
tei:      {concurrency: 32, health: {path: /health, interval: 5s, timeout: 2s, silence: 10s}, metrics: {path: /metrics}}
llamacpp: {concurrency: 1, health: {path: /health, interval: 5s, timeout: 2s, silence: 10s}, metrics: {path: /metrics}}
ollama:   {concurrency: 1, health: {path: /api/version, interval: 5s, timeout: 5s, silence: 10s}}
triton:   {concurrency: 8, health: {path: /health/ready, interval: 5s, timeout: 2s, silence: 10s}, metrics: {path: /metrics}}
openai:   {concurrency: 8, health: {path: /v1/models, interval: 5s, timeout: 5s, silence: 10s}}
`

// builtinLayers are the constants above as trees.
type builtinLayers struct {
	kinds   map[fleet.Kind]map[string]any
	engines map[string]any
}

func parseBuiltin() builtinLayers {
	return builtinLayers{
		kinds: map[fleet.Kind]map[string]any{
			fleet.KindModel:    mustTree(builtinModel),
			fleet.KindPool:     mustTree(builtinPool),
			fleet.KindEndpoint: mustTree(builtinEndpoint),
			fleet.KindColo:     mustTree(builtinColo),
			fleet.KindServer:   mustTree(builtinServer),
			fleet.KindEntry:    mustTree(builtinEntry),
			fleet.KindWorker:   mustTree(builtinWorker),
			fleet.KindAccount:  mustTree(builtinAccount),
			fleet.KindIssuer:   mustTree(builtinIssuer),
			fleet.KindCapture:  mustTree(builtinCapture),
		},
		engines: mustTree(builtinEngines),
	}
}

func mustTree(text string) map[string]any {
	tree, err := parseTree([]byte(text))
	if err != nil {
		panic("fleet: " + err.Reason)
	}
	return tree
}
