// Checks of the `ai` package with `@ai-sdk/openai`: openai(...) speaks /v1/responses, openai.chat(...) chat.
import { createOpenAI } from "@ai-sdk/openai";
import { embedMany, generateText, streamText } from "ai";
import { apiKey, assert, baseURL, chatModel, embedModel, equal, run } from "./lib.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;
const openai = createOpenAI({ baseURL, apiKey });
const prompt = "echo: one two three four";
const said = "one two three four";

async function plain(model) {
  const r = await generateText({ model, prompt, maxRetries: 0 });
  equal(r.text, said, "text");
  equal(r.finishReason, "stop", "finishReason");
  equal(r.usage.outputTokens, 4, "usage.outputTokens");
}

async function stream(model) {
  const r = streamText({ model, prompt, maxRetries: 0, onError: () => {} });
  let text = "";
  for await (const part of r.fullStream) {
    if (part.type === "error") throw part.error;
    if (part.type === "text-delta") text += part.text;
  }
  equal(text, said, "text");
  equal(await r.finishReason, "stop", "finishReason");
  equal((await r.usage).outputTokens, 4, "usage.outputTokens");
}

await run({
  "ai responses generateText": () => plain(openai(chatModel)),
  "ai responses streamText": () => stream(openai(chatModel)),
  "ai chat generateText": () => plain(openai.chat(chatModel)),
  "ai chat streamText": () => stream(openai.chat(chatModel)),
  "ai completion generateText": async () => {
    const r = await generateText({ model: openai.completion(chatModel), prompt: "talk", maxRetries: 0 });
    assert(r.text.length > 0, "no text");
  },
  "ai completion streamText": async () => {
    const r = streamText({ model: openai.completion(chatModel), prompt: "talk", maxRetries: 0, onError: () => {} });
    assert((await r.text).length > 0, "no text");
    equal(await r.finishReason, "stop", "finishReason");
  },
  "ai embedMany": async () => {
    const r = await embedMany({ model: openai.embedding(embedModel), values: ["one", "two"], maxRetries: 0 });
    equal(r.embeddings.length, 2, "vectors");
    assert(r.embeddings[0].length > 1, "the vector is empty");
  },
});
