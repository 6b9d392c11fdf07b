// Checks of `ollama`, with engines of each kind that has Ollama's paths.
import { Ollama } from "ollama";
import {
  apiKey, assert, cut, differs, engineFailed, equal, eventually, forKinds, left, missing, never, origin, prompt, raised, runKinds, said, toolCall, until, wrongKey,
} from "./lib.mjs";

const headers = { Authorization: `Bearer ${apiKey}` };
const client = new Ollama({ host: origin, headers });
const messages = [{ role: "user", content: prompt }];
const talk = [{ role: "user", content: "talk" }];
const tools = [{ type: "function", function: { name: "weather", description: "…",
  parameters: { type: "object", properties: { city: { type: "string" } } } } }];

function done(last) {
  equal(last.done, true, "done");
  equal(last.done_reason, "stop", "done_reason");
  equal(last.eval_count, 4, "eval_count");
  assert(last.prompt_eval_count > 0, "no prompt_eval_count");
}

// refused checks a refusal: the SDK has one class for all.
function refused(e, status) {
  equal(e.name, "ResponseError", "name");
  equal(e.status_code, status, "status_code");
  assert(typeof e.error === "string" && e.error.length > 4, `the error is no text: ${JSON.stringify(e.error)}`);
}

// failed checks the error of a stream that was cut, for which the SDK has no class.
const failed = (e) => assert(e.message.includes(engineFailed), `the error says ${e.message}`);

// hold begins a stream that does not end, and resolves to a function that leaves it.
async function hold(model) {
  const stream = await client.chat({ model, messages: talk, stream: true });
  await until(stream, (part) => part.message.content);
  return () => stream.abort();
}

differs("/api/chat", "`num_ctx` and other `options` for which Ollama loads the model again, and `keep_alive`, get a 400 that names the field (`ResponseError`), "
  + "unless the model's document has them under `allow_fields`");

await runKinds(forKinds("/api/chat", {
  "plain": async (model) => {
    const r = await client.chat({ model, messages });
    equal(r.message.content, said, "content");
    equal(r.message.role, "assistant", "role");
    done(r);
  },
  "plain, cut by num_predict": async (model) => {
    const r = await client.chat({ model, messages, options: { num_predict: 2 } });
    equal(r.message.content, "one two", "content");
    equal(r.done_reason, "length", "done_reason");
  },
  "stream": async (model) => {
    let text = "", last;
    for await (const part of await client.chat({ model, messages, stream: true })) {
      text += part.message?.content ?? "";
      last = part;
    }
    equal(text, said, "text");
    done(last);
  },
  "tools": async (model) => {
    const r = await client.chat({ model, tools, messages: [{ role: "user", content: toolCall }] });
    equal(r.message.tool_calls?.[0].function.name, "weather", "name");
    equal(r.message.tool_calls[0].function.arguments.city, "Paris", "arguments.city");
  },
  "tools, stream": async (model) => {
    const calls = [];
    for await (const part of await client.chat({ model, tools, messages: [{ role: "user", content: toolCall }], stream: true })) {
      calls.push(...part.message?.tool_calls ?? []);
    }
    equal(calls.length, 1, "calls");
    equal(calls[0].function.arguments.city, "Paris", "arguments.city");
  },
  "401 ResponseError": async (model) => {
    const stranger = new Ollama({ host: origin, headers: { Authorization: `Bearer ${wrongKey}` } });
    refused(await raised(() => stranger.chat({ model, messages })), 401);
  },
  "404 ResponseError": async () => {
    refused(await raised(() => client.chat({ model: missing, messages })), 404);
  },
  "404 ResponseError on a stream": async () => {
    refused(await raised(() => client.chat({ model: missing, messages, stream: true })), 404);
  },
  "429 ResponseError": async (_, single) => {
    const letGo = await hold(single);
    const impatient = new Ollama({ host: origin, headers: { ...headers, ...never } });
    const e = await raised(() => impatient.chat({ model: single, messages, options: { num_predict: 1 } }));
    letGo();
    refused(e, 429);
  },
  "stream that is cut": (model) => cut(model, async function* () {
    for await (const part of await client.chat({ model, messages: talk, stream: true })) yield part.message?.content;
  }, failed),
  "stream left early": async (_, single) => {
    (await hold(single))();
    await left(single);
  },
  // Ollama would load the model again for this option, and keep it for as long as this field says.
  "400 ResponseError for num_ctx and keep_alive": async (model) => {
    for (const [field, more] of [["options", { options: { num_ctx: 4096 } }], ["keep_alive", { keep_alive: "1h" }]]) {
      const e = await raised(() => client.chat({ model, messages, ...more }));
      refused(e, 400);
      assert(e.error.includes(`the field "${field}"`) && e.error.includes("allow_fields"), `the error says ${e.error}`);
    }
  },
}), forKinds("/api/chat", {
  "num_ctx with allow_fields": async (model) => done(await client.chat({ model, messages, options: { num_ctx: 4096 } })),
}, "loading"), forKinds("/api/generate", {
  "plain": async (model) => {
    const r = await client.generate({ model, prompt });
    equal(r.response, said, "response");
    done(r);
  },
  "stream": async (model) => {
    let text = "", last;
    for await (const part of await client.generate({ model, prompt, stream: true })) {
      text += part.response;
      last = part;
    }
    equal(text, said, "text");
    done(last);
  },
  "stream that is cut": (model) => cut(model, async function* () {
    for await (const part of await client.generate({ model, prompt: "talk", stream: true })) yield part.response;
  }, failed),
}), forKinds("/api/embed", {
  "embed": async (model) => {
    const r = await client.embed({ model, input: ["one", "two"] });
    equal(r.embeddings.length, 2, "vectors");
    assert(r.embeddings[0].length > 1, "the vector is empty");
  },
}, "embed"), forKinds("/api/embeddings", {
  "embeddings": async (model) => {
    assert((await client.embeddings({ model, prompt: "one" })).embedding.length > 1, "the vector is empty");
  },
}, "embed"), forKinds("/api/tags", {
  "list": async (model) => {
    const { models } = await client.list();
    const own = models.find((m) => m.model === model);
    assert(own, `${model} is not among ${models.map((m) => m.model)}`);
    equal(own.name, model, "name");
  },
}), forKinds("/api/ps", {
  "ps": (model) => eventually(async () => {
    const { models } = await client.ps();
    assert(models.some((m) => m.model === model), `${model} is not among ${models.map((m) => m.model)}`);
  }),
}), forKinds("/api/show", {
  "show": async (model) => {
    const r = await client.show({ model });
    assert(r.details && Array.isArray(r.capabilities), `no details or no capabilities: ${JSON.stringify(r)}`);
    assert(r.capabilities.includes("completion"), `capabilities: ${r.capabilities}`);
  },
  "404 ResponseError": async () => {
    refused(await raised(() => client.show({ model: missing })), 404);
  },
}));
