// A key that works and is revoked: what do the SDKs make of it, with their default retries? Prints "ready" after the
// key has worked, waits for a line on standard input, which says that COLONNADE_API_KEY was revoked, and goes on until the
// refusal.
import { createOpenAI } from "@ai-sdk/openai";
import { APICallError, generateText } from "ai";
import OpenAI from "openai";
import { once } from "node:events";
import { apiKey, assert, baseURL, chatModel, equal, raised, run } from "./lib.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;
const patience = 30_000; // milliseconds

let requests = 0;
const counted = (...args) => {
  requests++;
  return fetch(...args);
};
const client = new OpenAI({ baseURL, apiKey, fetch: counted });
const ai = createOpenAI({ baseURL, apiKey, fetch: counted });
const messages = [{ role: "user", content: "echo: hello" }];

async function chat() {
  const r = await client.chat.completions.create({ model: chatModel, messages });
  equal(r.choices[0].message.content, "hello", "content");
}

async function generate() {
  equal((await generateText({ model: ai.chat(chatModel), prompt: "echo: hello" })).text, "hello", "text");
}

// refused calls until a call is refused, and returns the error. It must have sent its request once.
async function refused(call) {
  for (const end = Date.now() + patience; ; await new Promise((resolve) => setTimeout(resolve, 20))) {
    assert(Date.now() < end, "the revoked key still works");
    requests = 0;
    let error;
    await call().catch((e) => { error = e; });
    if (error) {
      equal(requests, 1, "requests of the call that was refused");
      return error;
    }
  }
}

await run({ "key used": chat, "ai key used": generate });
console.log("ready");
await once(process.stdin.resume(), "data");
await run({
  "key revoked": async () => {
    const e = await refused(chat);
    assert(e instanceof OpenAI.AuthenticationError, `raised ${e?.constructor?.name}: ${e?.message}`);
    equal(e.status, 401, "status");
    equal(e.code, "invalid_api_key", "code");
    assert(!JSON.stringify([e.message, e.error]).includes(apiKey.slice(-10)), "the error repeats the key");
  },
  "key revoked, on a stream": async () => {
    const e = await raised(() => client.responses.create({ model: chatModel, input: "hello", stream: true }));
    assert(e instanceof OpenAI.AuthenticationError, `raised ${e?.constructor?.name}: ${e?.message}`);
  },
  "key revoked, models": async () => {
    const e = await raised(() => client.models.list());
    assert(e instanceof OpenAI.AuthenticationError, `raised ${e?.constructor?.name}: ${e?.message}`);
  },
  "ai key revoked": async () => {
    const e = await refused(generate);
    assert(APICallError.isInstance(e), `raised ${e?.constructor?.name}: ${e?.message}`);
    equal(e.statusCode, 401, "statusCode");
    assert(!e.isRetryable, "the SDK takes it for an error that will pass");
  },
});
process.stdin.destroy();
