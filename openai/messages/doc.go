// Package messages translates Anthropic's Messages API to OpenAI's chat completions and back, for engines that have no Messages API.
// It is pure, as package openai is.
//
// # Requests
//
// [Request] turns the body of a request into one of /v1/chat/completions. It copies strings as they are written, without
// decoding them. Each object has a table of its fields ([Objects]): what is translated, what is left out since that does no harm, and what is
// refused with the place and the name of the field. An unknown field is refused too, as Anthropic does.
//
// # Answers
//
// [Response] turns a whole answer, and a [Stream] the chunks of a streamed one, into what the Messages API answers. Both need [Asked],
// which is what they must know of the request. The texts of an answer are copied as they are written, so that a chunk costs little more
// than one that is passed on.
//
// # Sources
//
// The Messages API: https://platform.claude.com/docs/en/api/messages, https://platform.claude.com/docs/en/build-with-claude/streaming, and
// the types of https://github.com/anthropics/anthropic-sdk-python. Where two translations were possible, the one that vLLM has chosen for
// its own Messages API is taken (https://github.com/vllm-project/vllm, vllm/entrypoints/anthropic), unless it loses something.
package messages
