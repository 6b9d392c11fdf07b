package figures

import "strings"

// field is what a metric counts.
type field uint8

const (
	running field = iota
	waiting
	kvCache
	kvUsed // blocks
	kvAll
	prefixQueries
	prefixHits
	prefixRate
	cacheTokens
	fields
)

// ratio reports whether the field is a share: the greatest of several series counts, and not their sum.
func (f field) ratio() bool { return f == kvCache || f == prefixRate }

// maxSources is the most metrics that a field is taken from, the first of them that a page has.
const maxSources = 2

// source is a metric that a field is taken from.
type source struct {
	metric       string // without _total
	field        field
	rank         int    // of several that a page has, those of the least rank count
	label, value string // only series with that label; empty: all
}

const (
	trtRequests = "nv_trt_llm_request_metrics"
	trtBlocks   = "nv_trt_llm_kv_cache_block_metrics"
	blockType   = "kv_cache_block_type"
	cacheConfig = "vllm:cache_config_info" // says all in its labels
)

var sources = []source{
	{metric: "vllm:num_requests_running", field: running},
	{metric: "vllm:num_requests_swapped", field: running}, // V0: begun, and set aside for want of memory
	{metric: "vllm:num_requests_waiting", field: waiting},
	{metric: "vllm:kv_cache_usage_perc", field: kvCache},
	{metric: "vllm:gpu_cache_usage_perc", field: kvCache, rank: 1},
	{metric: "vllm:prefix_cache_queries", field: prefixQueries},
	{metric: "vllm:gpu_prefix_cache_queries", field: prefixQueries, rank: 1},
	{metric: "vllm:prefix_cache_hits", field: prefixHits},
	{metric: "vllm:gpu_prefix_cache_hits", field: prefixHits, rank: 1},
	{metric: "vllm:gpu_prefix_cache_hit_rate", field: prefixRate}, // -1 without a prefix cache

	{metric: cacheConfig, field: cacheTokens},

	{metric: "sglang:num_running_reqs", field: running},
	{metric: "sglang:num_queue_reqs", field: waiting},
	{metric: "sglang:num_grammar_queue_reqs", field: waiting}, // its grammar is compiled first
	{metric: "sglang:token_usage", field: kvCache},
	{metric: "sglang:prompt_tokens", field: prefixQueries},
	{metric: "sglang:cached_tokens", field: prefixHits},
	{metric: "sglang:cache_hit_rate", field: prefixRate},
	{metric: "sglang:max_total_num_tokens", field: cacheTokens},

	{metric: "tgi_batch_current_size", field: running},
	{metric: "tgi_queue_size", field: waiting},
	{metric: "te_queue_size", field: waiting},

	{metric: "llamacpp:requests_processing", field: running},
	{metric: "llamacpp:requests_deferred", field: waiting},
	{metric: "llamacpp:kv_cache_usage_ratio", field: kvCache},

	{metric: trtRequests, field: running, label: "request_type", value: "scheduled"},
	{metric: trtRequests, field: waiting, label: "request_type", value: "waiting"},
	{metric: trtBlocks, field: kvCache, label: blockType, value: "fraction"},
	{metric: trtBlocks, field: kvUsed, label: blockType, value: "used"},
	{metric: trtBlocks, field: kvAll, label: blockType, value: "max"},
	{metric: "trtllm_num_requests_running", field: running},
	{metric: "trtllm_num_requests_waiting", field: waiting},
	{metric: "trtllm_kv_cache_utilization", field: kvCache},
	{metric: "trtllm_kv_cache_hit_rate", field: prefixRate},
	// Of requests that a backend has taken, Triton knows nothing: those of vLLM and TensorRT-LLM count before it.
	{metric: "nv_inference_pending_request_count", field: waiting, rank: 1},
}

// byMetric has the places in sources of each metric, under all names that it has on pages.
var byMetric = indexed()

func indexed() map[string][]int {
	index := map[string][]int{}
	add := func(name string, at int) {
		index[name], index[name+"_total"] = append(index[name], at), append(index[name+"_total"], at)
	}
	for at := range sources {
		name := sources[at].metric
		add(name, at)
		if engine, rest, colon := strings.Cut(name, ":"); colon {
			add(engine+"_"+rest, at) // exporters for which a colon is only for recorded rules
			add("ray_"+engine+"_"+rest, at)
		}
	}
	return index
}

// rankLabels tell apart the processes of one engine that all report the same requests. Those of data parallelism are not among them.
var rankLabels = []string{"tp_rank", "pp_rank", "moe_ep_rank", "pid"}
