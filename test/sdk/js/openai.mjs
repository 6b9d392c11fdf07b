// Checks of the `openai` package: every plain and streamed API that a fleet serves.
import OpenAI from "openai";
import { apiKey, assert, baseURL, chatModel, embedModel, equal, run } from "./lib.mjs";

const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const model = chatModel;
const messages = [{ role: "user", content: "echo: one two three four" }];
const said = "one two three four";

function sane(usage, completion) {
  equal(usage?.completion_tokens, completion, "usage.completion_tokens");
  equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens, "usage.total_tokens");
}

await run({
  "chat plain": async () => {
    const r = await client.chat.completions.create({ model, messages });
    equal(r.choices[0].message.content, said, "content");
    equal(r.choices[0].message.role, "assistant", "role");
    equal(r.choices[0].finish_reason, "stop", "finish_reason");
    sane(r.usage, 4);
  },
  "chat max_tokens": async () => {
    const r = await client.chat.completions.create({ model, messages, max_completion_tokens: 2 });
    equal(r.choices[0].message.content, "one two", "content");
    equal(r.choices[0].finish_reason, "length", "finish_reason");
  },
  "chat stream": async () => {
    let text = "", reason = null;
    for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
      assert(chunk.choices.length === 1, "a chunk without a choice, though no usage was asked for");
      assert(!chunk.usage, "usage came, though it was not asked for");
      text += chunk.choices[0].delta.content ?? "";
      reason = chunk.choices[0].finish_reason ?? reason;
    }
    equal(text, said, "text");
    equal(reason, "stop", "finish_reason");
  },
  "chat stream with usage": async () => {
    let last;
    const stream = await client.chat.completions.create({
      model, messages, stream: true, stream_options: { include_usage: true },
    });
    for await (const chunk of stream) last = chunk;
    equal(last.choices.length, 0, "choices of the last chunk");
    sane(last.usage, 4);
  },
  "chat stream helper": async () => {
    const r = await client.chat.completions.stream({ model, messages }).finalChatCompletion();
    equal(r.choices[0].message.content, said, "content");
  },
  "chat stream left early": async () => {
    const stream = await client.chat.completions.create({ model, messages: [{ role: "user", content: "talk" }], stream: true });
    for await (const chunk of stream) {
      if (chunk.choices[0].delta.content) break;
    }
  },
  "responses plain": async () => {
    const r = await client.responses.create({ model, input: "echo: one two three four" });
    equal(r.output_text, said, "output_text");
    equal(r.status, "completed", "status");
    equal(r.usage.output_tokens, 4, "usage.output_tokens");
  },
  "responses stream": async () => {
    let text = "", last, n = 0;
    for await (const event of await client.responses.create({ model, input: "echo: one two three four", stream: true })) {
      equal(event.sequence_number, n++, "sequence_number");
      if (event.type === "response.output_text.delta") text += event.delta;
      last = event;
    }
    equal(text, said, "text");
    equal(last.type, "response.completed", "the last event");
    equal(last.response.usage.output_tokens, 4, "usage.output_tokens");
  },
  "responses stream helper": async () => {
    const r = await client.responses.stream({ model, input: "echo: one two three four" }).finalResponse();
    equal(r.output_text, said, "output_text");
  },
  "responses incomplete": async () => {
    const r = await client.responses.create({ model, input: "echo: one two three four", max_output_tokens: 2 });
    equal(r.status, "incomplete", "status");
    equal(r.incomplete_details.reason, "max_output_tokens", "reason");
  },
  "completions plain": async () => {
    const r = await client.completions.create({ model, prompt: "echo: one two three four" });
    equal(r.choices[0].text, said, "text");
    sane(r.usage, 4);
  },
  "completions stream": async () => {
    let text = "";
    for await (const chunk of await client.completions.create({ model, prompt: "echo: one two three four", stream: true })) {
      assert(!chunk.usage, "usage came, though it was not asked for");
      text += chunk.choices[0].text;
    }
    equal(text, said, "text");
  },
  "embeddings": async () => {
    const input = ["one", "two"];
    const coded = await client.embeddings.create({ model: embedModel, input }); // base64 on the wire
    const plain = await client.embeddings.create({ model: embedModel, input, encoding_format: "float" });
    equal(coded.data.length, 2, "vectors");
    assert(coded.data[0].embedding.length > 1, "the vector is empty");
    for (const i of [0, 1]) {
      equal(coded.data[i].index, i, "index");
      plain.data[i].embedding.forEach((x, k) =>
        equal(coded.data[i].embedding[k], Math.fround(x), `vector ${i} at ${k}`));
    }
  },
  "models": async () => {
    const ids = [];
    for await (const m of client.models.list()) ids.push(m.id);
    assert(ids.includes(model), `${model} is not among ${ids}`);
    const m = await client.models.retrieve(model);
    equal(m.id, model, "id");
    equal(m.object, "model", "object");
  },
});
