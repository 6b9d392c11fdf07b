// Checks that refusals reach programs as the SDKs' own classes.
import { createOpenAI } from "@ai-sdk/openai";
import { APICallError, generateText, streamText } from "ai";
import OpenAI from "openai";
import { apiKey, assert, baseURL, chatModel, equal, raised, run } from "./lib.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const ai = createOpenAI({ baseURL, apiKey });
const messages = [{ role: "user", content: "hello" }];
const missing = "no-such-model";

function isA(e, kind, status, code) {
  assert(e instanceof kind, `raised ${e?.constructor?.name}: ${e?.message}, want ${kind.name}`);
  equal(e.status, status, "status");
  if (code !== undefined) equal(e.code, code, "code");
  assert(e.message.length > 4, "the error has no message");
}

function isCallError(e, status) {
  assert(APICallError.isInstance(e), `raised ${e?.constructor?.name}: ${e?.message}, want APICallError`);
  equal(e.statusCode, status, "statusCode");
  assert(e.data?.error?.message, "the error's body was not understood");
}

const checks = {
  "404 NotFoundError": async () => {
    const e = await raised(() => client.chat.completions.create({ model: missing, messages }));
    isA(e, OpenAI.NotFoundError, 404, "model_not_found");
  },
  "404 NotFoundError on a stream": async () => {
    const e = await raised(() => client.responses.create({ model: missing, input: "hello", stream: true }));
    isA(e, OpenAI.NotFoundError, 404, "model_not_found");
  },
  "404 NotFoundError on models": async () => {
    isA(await raised(() => client.models.retrieve(missing)), OpenAI.NotFoundError, 404, "model_not_found");
  },
  "404 NotFoundError on an unknown path": async () => {
    isA(await raised(() => client.post("/no/such/path", { body: {} })), OpenAI.NotFoundError, 404, "unknown_url");
  },
  "400 BadRequestError": async () => {
    const e = await raised(() => client.chat.completions.create({ model: chatModel, messages, max_tokens: 0 }));
    isA(e, OpenAI.BadRequestError, 400);
  },
  "ai 404 APICallError": async () => {
    isCallError(await raised(() => generateText({ model: ai(missing), prompt: "hello", maxRetries: 0 })), 404);
    isCallError(await raised(() => generateText({ model: ai.chat(missing), prompt: "hello", maxRetries: 0 })), 404);
  },
  "ai 404 APICallError on a stream": async () => {
    let e;
    const r = streamText({ model: ai.chat(missing), prompt: "hello", maxRetries: 0, onError: (x) => { e = x.error; } });
    await r.consumeStream();
    isCallError(e, 404);
  },
};

if (process.env.COLONNADE_EXPECT_401 === "1") {
  checks["401 AuthenticationError"] = async () => {
    const stranger = new OpenAI({ baseURL, apiKey: "cn_0000_wrong", maxRetries: 0 });
    const e = await raised(() => stranger.chat.completions.create({ model: chatModel, messages }));
    isA(e, OpenAI.AuthenticationError, 401, "invalid_api_key");
  };
}

// The caller has seen to it that this model has no room.
const busy = process.env.COLONNADE_BUSY_MODEL;
if (busy) {
  const headers = { "x-colonnade-queue": "never" };
  checks["429 RateLimitError"] = async () => {
    const e = await raised(() => client.chat.completions.create({ model: busy, messages }, { headers }));
    isA(e, OpenAI.RateLimitError, 429);
    if (process.env.COLONNADE_GATEWAY === "1") {
      equal(e.code, "out_of_capacity", "code");
      assert(Number(e.headers.get("retry-after")) >= 1, "no retry-after");
      assert(Number(e.headers.get("retry-after-ms")) > 0, "no retry-after-ms");
      equal(e.headers.get("x-colonnade-reason"), e.error.reason, "reason");
    }
  };
  checks["429 RateLimitError on a stream"] = async () => {
    const e = await raised(() => client.responses.create({ model: busy, input: "hello", stream: true }, { headers }));
    isA(e, OpenAI.RateLimitError, 429);
  };
  checks["ai 429 APICallError"] = async () => {
    const e = await raised(() => generateText({ model: ai.chat(busy), prompt: "hello", maxRetries: 0, headers }));
    isCallError(e, 429);
    assert(e.isRetryable, "the SDK takes it for an error that will not pass");
  };
}

if (process.env.COLONNADE_GATEWAY === "1") {
  checks["errors name the request"] = async () => {
    const e = await raised(() => client.chat.completions.create({ model: missing, messages }));
    assert(e.requestID, "no x-request-id");
    equal(e.error.request_id, e.requestID, "request_id");
    equal(e.error.number, 40002, "number");
  };
  checks["answers name the request"] = async () => {
    const r = await client.chat.completions.create({ model: chatModel, messages, max_tokens: 1 });
    assert(r._request_id, "no x-request-id");
  };
}

await run(checks);
