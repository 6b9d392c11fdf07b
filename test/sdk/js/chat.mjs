// Checks of `openai`, with engines of each kind.
import OpenAI from "openai";
import {
  apiKey, assert, baseURL, cut, equal, forKinds, isA, left, missing, never, prompt, raised, refusedFirst, runKinds, said, toolCall, until, withOne, wrongKey,
} from "./lib.mjs";
import { media } from "./media.mjs";

const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const retrying = new OpenAI({ baseURL, apiKey }); // as the SDK does it by default
const messages = [{ role: "user", content: prompt }];
const talk = [{ role: "user", content: "talk" }];
const toolMessages = [{ role: "user", content: toolCall }];
const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } } }];

function complete(choice) {
  equal(choice.message.content, said, "content");
  equal(choice.finish_reason, "stop", "finish_reason");
}

function calls(choice) {
  equal(choice.finish_reason, "tool_calls", "finish_reason");
  const call = choice.message.tool_calls[0];
  assert(call.id, "the call has no id");
  equal(call.function.name, "weather", "name");
  equal(JSON.parse(call.function.arguments).city, "Paris", "arguments.city");
}

// hold begins a stream that does not end, and resolves to a function that leaves it.
async function hold(model) {
  const stream = await client.chat.completions.create({ model, messages: talk, stream: true });
  await until(stream, (chunk) => chunk.choices[0].delta.content);
  return () => stream.controller.abort();
}

await runKinds(forKinds("/v1/chat/completions", {
  "plain": async (model) => {
    const r = await client.chat.completions.create({ model, messages });
    complete(r.choices[0]);
    equal(r.usage.completion_tokens, 4, "completion_tokens");
  },
  "stream": async (model) => {
    let text = "", usage;
    for await (const chunk of await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } })) {
      text += chunk.choices[0]?.delta.content ?? "";
      usage = chunk.usage ?? usage;
    }
    equal(text, said, "text");
    equal(usage.completion_tokens, 4, "completion_tokens");
  },
  "stream helper": async (model) => {
    complete((await client.chat.completions.stream({ model, messages }).finalChatCompletion()).choices[0]);
  },
  "tools": async (model) => calls((await client.chat.completions.create({ model, messages: toolMessages, tools })).choices[0]),
  "tools, stream helper": async (model) => {
    calls((await client.chat.completions.stream({ model, messages: toolMessages, tools }).finalChatCompletion()).choices[0]);
  },
  "401 AuthenticationError": async (model) => {
    const stranger = new OpenAI({ baseURL, apiKey: wrongKey, maxRetries: 0 });
    isA(await raised(() => stranger.chat.completions.create({ model, messages })), OpenAI.AuthenticationError, 401);
  },
  "404 NotFoundError": async () => {
    isA(await raised(() => client.chat.completions.create({ model: missing, messages })), OpenAI.NotFoundError, 404);
  },
  "429 RateLimitError": async (_, single) => {
    const letGo = await hold(single);
    const e = await raised(() => client.chat.completions.create({ model: single, messages, max_tokens: 1 }, { headers: never }));
    letGo();
    isA(e, OpenAI.RateLimitError, 429);
  },
  "stream that is cut": (model) => cut(model, async function* () {
    for await (const chunk of await retrying.chat.completions.create({ model, messages: talk, stream: true })) yield chunk.choices[0]?.delta.content;
  }, (e) => isA(e, OpenAI.OpenAIError)),
  "stream left early": async (_, single) => {
    (await hold(single))();
    await left(single);
  },
}), withOne("/v1/chat/completions", {
  "retries obey Retry-After": (_, single) => refusedFirst(() => hold(single), async (fetch) => {
    const patient = new OpenAI({ baseURL, apiKey, fetch, maxRetries: 5, defaultHeaders: never });
    equal((await patient.chat.completions.create({ model: single, messages, max_tokens: 1 })).choices[0].message.content, "one", "content");
  }),
}), forKinds("/v1/completions", {
  "plain": async (model) => equal((await client.completions.create({ model, prompt })).choices[0].text, said, "text"),
  "stream": async (model) => {
    let text = "";
    for await (const chunk of await client.completions.create({ model, prompt, stream: true })) text += chunk.choices[0].text;
    equal(text, said, "text");
  },
}), forKinds("/v1/responses", {
  "plain": async (model) => {
    const r = await client.responses.create({ model, input: prompt });
    equal(r.output_text, said, "output_text");
    equal(r.usage.output_tokens, 4, "output_tokens");
  },
  "stream helper": async (model) => {
    equal((await client.responses.stream({ model, input: prompt }).finalResponse()).output_text, said, "output_text");
  },
}), forKinds("/v1/embeddings", {
  "embeddings": async (model) => {
    const r = await client.embeddings.create({ model, input: ["one", "two"] });
    equal(r.data.length, 2, "vectors");
    assert(r.data[1].embedding.length > 1, "the vector is empty");
    assert(r.usage.prompt_tokens > 0, "no prompt_tokens");
  },
}, "embed"), forKinds("/v1/models", {
  "list": async (model) => {
    const found = [];
    for await (const m of client.models.list()) found.push(m);
    const own = found.find((m) => m.id === model);
    assert(own, `${model} is not among ${found.map((m) => m.id)}`);
    assert(own.created > 0 && own.owned_by, "it has no created, or no owned_by");
  },
  "retrieve": async (model) => equal((await client.models.retrieve(model)).id, model, "id"),
  "404 NotFoundError": async () => isA(await raised(() => client.models.retrieve(missing)), OpenAI.NotFoundError, 404),
}), ...media);
