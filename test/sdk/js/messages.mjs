// Checks of `@anthropic-ai/sdk`, with engines of each kind that has Anthropic's paths or has them translated.
import Anthropic from "@anthropic-ai/sdk";
import {
  apiKey, assert, cut, equal, forKinds, isA, left, missing, never, origin, prompt, raised, refusedFirst, runKinds, said, toolCall, until, withOne, wrongKey,
} from "./lib.mjs";

const client = new Anthropic({ baseURL: origin, apiKey, maxRetries: 0 });
const retrying = new Anthropic({ baseURL: origin, apiKey }); // as the SDK does it by default
const messages = [{ role: "user", content: prompt }];
const talk = [{ role: "user", content: "talk" }];
const max_tokens = 64;
const tools = [{ name: "weather", description: "…", input_schema: { type: "object", properties: { city: { type: "string" } } } }];
const toolMessages = [{ role: "user", content: toolCall }];

function complete(m) {
  equal(m.content.length, 1, "blocks");
  equal(m.content[0].text, said, "text");
  equal(m.stop_reason, "end_turn", "stop_reason");
  sane(m.usage);
}

function sane(usage) {
  equal(usage.output_tokens, 4, "output_tokens");
  assert(usage.input_tokens > 0, "no input_tokens");
}

function calls(m) {
  equal(m.stop_reason, "tool_use", "stop_reason");
  const use = m.content.find((b) => b.type === "tool_use");
  assert(use?.id, "the call has no id");
  equal(use.name, "weather", "name");
  equal(use.input.city, "Paris", "input.city");
}

// hold begins a stream that does not end, and resolves to a function that leaves it.
async function hold(model) {
  const stream = await client.messages.create({ model, max_tokens, messages: talk, stream: true });
  await until(stream, (event) => event.type === "content_block_delta");
  return () => stream.controller.abort();
}

// refused checks a refusal that the gateway gives: the class of the SDK, the type of error, and the id of the request.
function refused(e, kind, status, type) {
  isA(e, kind, status);
  equal(e.type, type, "type");
  assert(e.requestID, "the error does not name the request");
  equal(e.error.request_id, e.requestID, "request_id");
}

await runKinds(forKinds("/v1/messages", {
  "plain": async (model) => {
    const m = await client.messages.create({ model, max_tokens, messages, system: "Be brief." });
    equal(m.type, "message", "type");
    equal(m.role, "assistant", "role");
    complete(m);
  },
  "plain, cut by max_tokens": async (model) => {
    const m = await client.messages.create({ model, max_tokens: 2, messages });
    equal(m.content[0].text, "one two", "text");
    equal(m.stop_reason, "max_tokens", "stop_reason");
  },
  "stream": async (model) => {
    const types = [];
    let text = "";
    for await (const event of await client.messages.create({ model, max_tokens, messages, stream: true })) {
      if (event.type !== types.at(-1)) types.push(event.type);
      if (event.type === "content_block_delta") text += event.delta.text;
      if (event.type === "message_delta") sane({ input_tokens: 1, ...event.usage });
    }
    equal(text, said, "text");
    equal(types.filter((t) => t !== "ping").join(" "),
      "message_start content_block_start content_block_delta content_block_stop message_delta message_stop", "events");
  },
  "stream helper": async (model) => {
    let text = "";
    const stream = client.messages.stream({ model, max_tokens, messages }).on("text", (t) => { text += t; });
    complete(await stream.finalMessage());
    equal(text, said, "text");
  },
  "tools": async (model) => {
    calls(await client.messages.create({ model, max_tokens, tools, messages: toolMessages }));
  },
  "tools, stream helper": async (model) => {
    let input;
    const stream = client.messages.stream({ model, max_tokens, tools, messages: toolMessages })
      .on("inputJson", (_, snapshot) => { input = snapshot; });
    calls(await stream.finalMessage());
    equal(input?.city, "Paris", "the input as it was streamed");
  },
  "tools, result sent back": async (model) => {
    complete(await client.messages.create({ model, max_tokens, tools, messages: [
      ...toolMessages,
      { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Paris" } }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "mild" }, { type: "text", text: prompt }] },
    ] }));
  },
  "401 AuthenticationError": async (model) => {
    const stranger = new Anthropic({ baseURL: origin, apiKey: wrongKey, maxRetries: 0 });
    refused(await raised(() => stranger.messages.create({ model, max_tokens, messages })), Anthropic.AuthenticationError, 401, "authentication_error");
  },
  "authToken as a key": async (model) => {
    const bearer = new Anthropic({ baseURL: origin, apiKey: null, authToken: apiKey, maxRetries: 0 });
    complete(await bearer.messages.create({ model, max_tokens, messages }));
  },
  "404 NotFoundError": async () => {
    const e = await raised(() => client.messages.create({ model: missing, max_tokens, messages }));
    refused(e, Anthropic.NotFoundError, 404, "not_found_error");
  },
  "404 NotFoundError on a stream": async () => {
    const e = await raised(() => client.messages.stream({ model: missing, max_tokens, messages }).finalMessage());
    refused(e, Anthropic.NotFoundError, 404, "not_found_error");
  },
  "400 BadRequestError": async (model) => {
    isA(await raised(() => client.messages.create({ model, max_tokens: 0, messages })), Anthropic.BadRequestError, 400);
  },
  "429 RateLimitError": async (_, single) => {
    const letGo = await hold(single);
    const e = await raised(() => client.messages.create({ model: single, max_tokens: 1, messages }, { headers: never }));
    letGo();
    refused(e, Anthropic.RateLimitError, 429, "rate_limit_error");
    assert(Number(e.headers.get("retry-after")) >= 1, "no retry-after");
  },
  "stream that is cut": (model) => cut(model, async function* () {
    for await (const event of await retrying.messages.create({ model, max_tokens, messages: talk, stream: true })) yield event.delta?.text;
  }, (e) => isA(e, Anthropic.APIError)),
  "stream helper that is cut": (model) => cut(model, async function* () {
    for await (const event of retrying.messages.stream({ model, max_tokens, messages: talk })) yield event.delta?.text;
  }, (e) => isA(e, Anthropic.APIError)),
  "stream left early": async (_, single) => {
    (await hold(single))();
    await left(single);
  },
}), withOne("/v1/messages", {
  "retries obey Retry-After": (_, single) => refusedFirst(() => hold(single), async (fetch) => {
    const patient = new Anthropic({ baseURL: origin, apiKey, fetch, maxRetries: 5, defaultHeaders: never });
    equal((await patient.messages.create({ model: single, max_tokens: 1, messages })).content[0].text, "one", "text");
  }),
}), forKinds("/v1/messages/count_tokens", {
  "count": async (model) => {
    const { input_tokens } = await client.messages.countTokens({ model, messages });
    assert(input_tokens >= 4, `${input_tokens} tokens`);
  },
  "404 NotFoundError": async () => {
    const e = await raised(() => client.messages.countTokens({ model: missing, messages }));
    refused(e, Anthropic.NotFoundError, 404, "not_found_error");
  },
}), forKinds("/v1/models", {
  "list": async (model) => {
    const found = [];
    for await (const m of client.models.list()) found.push(m);
    const own = found.find((m) => m.id === model);
    assert(own, `${model} is not among ${found.map((m) => m.id)}`);
    equal(own.type, "model", "type");
    assert(own.display_name && !isNaN(new Date(own.created_at)), "it has no display_name, or created_at is no time");
  },
  "retrieve": async (model) => {
    equal((await client.models.retrieve(model)).id, model, "id");
  },
  "404 NotFoundError": async () => {
    refused(await raised(() => client.models.retrieve(missing)), Anthropic.NotFoundError, 404, "not_found_error");
  },
}));
