// Checks of `ai` with `@ai-sdk/openai-compatible` and `@ai-sdk/anthropic`, with engines of each kind. The name of one of them is the argument.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, embedMany, generateText, jsonSchema, streamText, tool } from "ai";
import {
  apiKey, assert, baseURL, cut, equal, forKinds, left, missing, never, prompt, raised, refusedFirst, runKinds, said, toolCall, until, withOne, wrongKey,
} from "./lib.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;
const compatible = (more) => createOpenAICompatible({ name: "colonnade", baseURL, apiKey, includeUsage: true, ...more });
const anthropic = (more) => createAnthropic({ baseURL, apiKey, ...more });
const tools = {
  weather: tool({
    description: "…", inputSchema: jsonSchema({ type: "object", properties: { city: { type: "string" } } }),
  }),
};

function usage(u) {
  equal(u.outputTokens, 4, "usage.outputTokens");
  assert(u.inputTokens > 0, "no usage.inputTokens");
}

function isCallError(e, status) {
  assert(APICallError.isInstance(e), `raised ${e?.constructor?.name}: ${e?.message}, want APICallError`);
  equal(e.statusCode, status, "statusCode");
  assert(e.data?.error?.message, `the error's body was not understood: ${e.responseBody}`);
}

// streamed returns the parts of a stream up to its error, which it throws.
async function* streamed(options) {
  for await (const part of streamText({ maxRetries: 0, onError: () => {}, ...options }).fullStream) {
    if (part.type === "error") throw part.error;
    yield part;
  }
}

// hold begins a stream that does not end, and resolves to a function that leaves it.
async function hold(model) {
  const leaving = new AbortController();
  await until(streamed({ model, prompt: "talk", abortSignal: leaving.signal }), (part) => part.type === "text-delta");
  return () => leaving.abort();
}

const features = (provider) => ({
  "generateText": async (model) => {
    const r = await generateText({ model: provider()(model), prompt, maxRetries: 0 });
    equal(r.text, said, "text");
    equal(r.finishReason, "stop", "finishReason");
    usage(r.usage);
  },
  "streamText": async (model) => {
    const r = streamText({ model: provider()(model), prompt, maxRetries: 0, onError: () => {} });
    equal(await r.text, said, "text");
    equal(await r.finishReason, "stop", "finishReason");
    usage(await r.usage);
  },
  "tools": async (model) => {
    const r = await generateText({ model: provider()(model), prompt: toolCall, tools, maxRetries: 0 });
    equal(r.finishReason, "tool-calls", "finishReason");
    equal(r.toolCalls[0].toolName, "weather", "toolName");
    equal(r.toolCalls[0].input.city, "Paris", "input.city");
  },
  "tools, streamText": async (model) => {
    const calls = [];
    for await (const part of streamed({ model: provider()(model), prompt: toolCall, tools })) if (part.type === "tool-call") calls.push(part);
    equal(calls.length, 1, "calls");
    equal(calls[0].input.city, "Paris", "input.city");
  },
  "401 APICallError": async (model) => {
    isCallError(await raised(() => generateText({ model: provider({ apiKey: wrongKey })(model), prompt, maxRetries: 0 })), 401);
  },
  "404 APICallError": async () => {
    isCallError(await raised(() => generateText({ model: provider()(missing), prompt, maxRetries: 0 })), 404);
  },
  "404 APICallError on a stream": async () => {
    isCallError(await raised(async () => {
      for await (const part of streamed({ model: provider()(missing), prompt })) assert(part.type !== "text-delta", "text came");
    }), 404);
  },
  "429 APICallError": async (_, single) => {
    const letGo = await hold(provider()(single));
    const e = await raised(() => generateText({ model: provider()(single), prompt, maxOutputTokens: 1, maxRetries: 0, headers: never }));
    letGo();
    isCallError(e, 429);
    assert(e.isRetryable, "the SDK takes it for an error that will not pass");
  },
  "stream that is cut": (model) => cut(model, async function* () {
    for await (const part of streamed({ model: provider()(model), prompt: "talk", maxRetries: 2 })) {
      if (part.type === "text-delta") yield part.text;
    }
  }),
  "stream left early": async (_, single) => {
    (await hold(provider()(single)))();
    await left(single);
  },
});

const retries = (provider) => ({
  "retries obey Retry-After": (_, single) => refusedFirst(() => hold(provider()(single)), async (fetch) => {
    const r = await generateText({ model: provider({ fetch })(single), prompt, maxOutputTokens: 1, maxRetries: 5, headers: never });
    equal(r.text, "one", "text");
  }),
});

const checks = {
  "openai-compatible": [forKinds("/v1/chat/completions", features(compatible)), withOne("/v1/chat/completions", retries(compatible)), forKinds("/v1/embeddings", {
    "embedMany": async (model) => {
      const r = await embedMany({ model: compatible().textEmbeddingModel(model), values: ["one", "two"], maxRetries: 0 });
      equal(r.embeddings.length, 2, "vectors");
      assert(r.usage.tokens > 0, "no usage");
    },
  }, "embed")],
  "anthropic": [forKinds("/v1/messages", features(anthropic)), withOne("/v1/messages", retries(anthropic))],
}[process.argv[2]];
if (!checks) {
  console.error("usage: node providers.mjs openai-compatible|anthropic");
  process.exit(2);
}
await runKinds(...checks);
