// Checks that the SDKs read streams with queue events as any others.
//
// COLONNADE_QUEUED_MODEL names a model whose engine takes one request at a
// time, so that of several at once most wait. COLONNADE_BUSY_MODEL names one
// that has no room.
import { createOpenAI } from "@ai-sdk/openai";
import { streamText } from "ai";
import OpenAI from "openai";
import { apiKey, assert, baseURL, equal, need, raised, run } from "./lib.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;
const events = { "x-colonnade-queue-events": "1" }, never = { "x-colonnade-queue": "never" };
const queued = need("COLONNADE_QUEUED_MODEL"), busy = need("COLONNADE_BUSY_MODEL");
const said = "echo: one two three", heard = "one two three";
const messages = [{ role: "user", content: said }];
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, defaultHeaders: events });
const provider = createOpenAI({ baseURL, apiKey, headers: events });

const together = (ask) => async () => {
  for (const text of await Promise.all([ask(), ask(), ask(), ask()])) equal(text.trim(), heard, "text");
};

async function chat() {
  let text = "";
  for await (const c of await client.chat.completions.create({ model: queued, messages, stream: true })) text += c.choices[0]?.delta.content ?? "";
  return text;
}

async function responses() {
  return (await client.responses.stream({ model: queued, input: said }).finalResponse()).output_text;
}

const ai = (model) => async () => {
  let text = "";
  for await (const part of streamText({ model, prompt: said, maxRetries: 0, onError: () => {} }).fullStream) {
    if (part.type === "error") throw part.error;
    if (part.type === "text-delta") text += part.text;
  }
  return text;
};

const refused = (create) => async () => {
  const e = await raised(async () => {
    for await (const _ of await create()) assert(false, "something was delivered");
  });
  assert(e instanceof OpenAI.APIError, `raised ${e}`);
  equal(e.code, "out_of_capacity", "code");
  equal(e.error?.reason, "busy", "reason");
  assert(e.error.retry_after_ms >= 1000, "retry_after_ms");
};

const refusedByAI = (model) => async () => {
  const e = await raised(ai(model));
  const text = JSON.stringify(e, Object.getOwnPropertyNames(e ?? {})) + String(e?.message ?? e);
  assert(text.includes("out_of_capacity") || text.includes("Capacity temporarily exceeded"), `raised ${text}`);
};
const unready = createOpenAI({ baseURL, apiKey, headers: { ...events, ...never } });

await run({
  "openai chat waits": together(chat),
  "openai responses wait": together(responses),
  "ai chat waits": together(ai(provider.chat(queued))),
  "ai responses wait": together(ai(provider(queued))),
  "openai chat is refused": refused(() => client.chat.completions.create({ model: busy, messages, stream: true }, { headers: never })),
  "openai responses are refused": refused(() => client.responses.create({ model: busy, input: said, stream: true }, { headers: never })),
  "ai chat is refused": refusedByAI(unready.chat(busy)),
  "ai responses are refused": refusedByAI(unready(busy)),
});
