// Package figures reads the metrics that engines write about themselves, in Prometheus' text format: how many requests run and wait, how
// full the KV cache is, how much of the prompts was found there, and which adapters are in use.
//
// A metric is found by its name alone, so that an engine behind another front end (vLLM in Triton, for example) is read too. A figure that
// the page does not have is not known, which is not the same as 0. Series of several ranks are added; the KV cache is that of the fullest.
//
// # Sources
//
// vLLM: V0 has gpu_cache_usage_perc and gpu_prefix_cache_hit_rate, V1 before 0.9 gpu_prefix_cache_queries and _hits, and later versions
// kv_cache_usage_perc and prefix_cache_queries and _hits, for a while beside the old names. A client of Prometheus writes counters with _total.
// https://github.com/vllm-project/vllm/blob/v0.6.6/vllm/engine/metrics.py
// https://github.com/vllm-project/vllm/blob/v0.10.0/vllm/v1/metrics/loggers.py
// https://docs.vllm.ai/en/latest/usage/metrics/
//
// SGLang with --enable-metrics. A series has labels of its ranks; later versions write sglang_ for sglang:.
// https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/metrics/collector.py
// https://docs.sglang.ai/references/production_metrics.html
//
// TGI and TEI:
// https://huggingface.co/docs/text-generation-inference/reference/metrics
// https://github.com/huggingface/text-embeddings-inference/blob/main/core/src/queue.rs
//
// llama.cpp with --metrics. The KV cache is only in versions before 2025-07.
// https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md (GET /metrics)
//
// Triton, whose OpenAI front end has the page of the server and its backends, and TensorRT-LLM as a backend and on its own (trtllm-serve):
// https://github.com/triton-inference-server/server/blob/main/docs/user_guide/metrics.md
// https://github.com/triton-inference-server/server/blob/main/python/openai/openai_frontend/frontend/fastapi/routers/observability.py
// https://github.com/triton-inference-server/tensorrtllm_backend/blob/main/README.md (Triton Metrics)
// https://github.com/llm-d/llm-d-inference-scheduler (docs: requirements of model servers, with the names of trtllm-serve)
package figures
