// Checks of the paths of `openai` for audio, images and realtime sessions, with engines of each kind that has them.
import OpenAI, { toFile } from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { apiKey, assert, baseURL, cut, cuts, differs, equal, forKinds, isA, left, missing, prompt, raised, said, wrongKey } from "./lib.mjs";
import { failed, next, options } from "./session.mjs";

const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const retrying = new OpenAI({ baseURL, apiKey }); // as the SDK does it by default
const stranger = new OpenAI({ baseURL, apiKey: wrongKey, maxRetries: 0 });
const recording = () => toFile(Buffer.alloc(4096), "speech.wav", { type: "audio/wav" });
const picture = () => toFile(Buffer.alloc(1024), "picture.png", { type: "image/png" });

// refused are the checks of refusals; send gets a client and the name of a model.
const refused = (send) => ({
  "401 AuthenticationError": async (model) => isA(await raised(() => send(stranger, model)), OpenAI.AuthenticationError, 401),
  "404 NotFoundError": async () => isA(await raised(() => send(client, missing)), OpenAI.NotFoundError, 404),
});

const speak = (of, model, more) => of.audio.speech.create({ model, voice: "alloy", input: "one", ...more });
const transcribe = async (of, model, more) => of.audio.transcriptions.create({ model, file: await recording(), prompt, ...more });
const draw = (of, model, more) => of.images.generate({ model, prompt: "a heron", ...more });
const edit = async (of, model, more) => of.images.edit({ model, prompt: "a heron", image: await picture(), ...more });
const isPicture = (r) => assert(r.data[0].b64_json.length > 8, "no picture");

async function completed(stream, type) {
  let partial = 0, last;
  for await (const event of stream) {
    if (event.type.endsWith(".partial_image")) partial++;
    last = event;
  }
  assert(partial > 0, "no partial image");
  equal(last.type, type, "the last event");
  assert(last.b64_json.length > 8, "no picture");
}

// cutOff reads a stream that the engine cuts.
const cutOff = (send, piece) => (model) => cut(model, async function* () {
  for await (const event of await send(retrying, model, { stream: true })) yield piece(event);
}, (e) => isA(e, OpenAI.OpenAIError));

const open = (of, model) => new OpenAIRealtimeWS({ model, options }, of);

// talk begins a response and returns its text, and its last event.
async function talk(session, words) {
  let text = "";
  session.on("response.output_text.delta", (e) => { text += e.delta; });
  session.send({ type: "conversation.item.create", item: { type: "message", role: "user", content: [{ type: "input_text", text: words }] } });
  session.send({ type: "response.create", response: {} });
  return { ...await next(session, "response.done"), text };
}

differs("/v1/audio/speech", "an answer that is cut raises an error of the HTTP library (`TypeError: terminated`), since the SDK hands over the body of the response as it comes");

export const media = [forKinds("/v1/audio/speech", {
  "plain": async (model) => {
    const r = await speak(client, model);
    equal(r.headers.get("content-type"), "audio/mpeg", "content-type");
    assert((await r.arrayBuffer()).byteLength > 1024, "hardly any audio");
  },
  // An answer of bytes has no end but HTTP's.
  "answer that is cut": (model) => cut(model, async function* () {
    yield* (await speak(retrying, model, { bytes: 4 << 20 })).body;
  }, () => {}, cuts.slice(0, 2)),
  ...refused(speak),
}, "audio"), forKinds("/v1/audio/transcriptions", {
  "plain": async (model) => {
    const r = await transcribe(client, model);
    equal(r.text, said, "text");
    equal(r.usage.output_tokens, 4, "output_tokens");
  },
  "text": async (model) => equal((await transcribe(client, model, { response_format: "text" })).trim(), said, "text"),
  "verbose_json": async (model) => equal((await transcribe(client, model, { response_format: "verbose_json" })).text, said, "text"),
  "stream": async (model) => {
    let text = "", last;
    for await (const event of await transcribe(client, model, { stream: true })) {
      if (event.type === "transcript.text.delta") text += event.delta;
      last = event;
    }
    equal(text, said, "text");
    equal(last.type, "transcript.text.done", "the last event");
  },
  "stream that is cut": cutOff((of, model, more) => transcribe(of, model, { prompt: "talk", ...more }), (e) => e.delta),
  ...refused(transcribe),
}, "audio"), forKinds("/v1/audio/translations", {
  "plain": async (model) => equal((await client.audio.translations.create({ model, file: await recording(), prompt })).text, said, "text"),
}, "audio"), forKinds("/v1/images/generations", {
  "plain": async (model) => isPicture(await draw(client, model)),
  "stream": async (model) => completed(await draw(client, model, { stream: true, partial_images: 2 }), "image_generation.completed"),
  "stream that is cut": cutOff(draw, (e) => e.b64_json),
  ...refused(draw),
}, "image"), forKinds("/v1/images/edits", {
  "plain": async (model) => isPicture(await edit(client, model)),
  "stream": async (model) => completed(await edit(client, model, { stream: true, partial_images: 2 }), "image_edit.completed"),
  "stream that is cut": cutOff(edit, (e) => e.b64_json),
}, "image"), forKinds("/v1/images/variations", {
  "plain": async (model) => isPicture(await client.images.createVariation({ model, image: await picture() })),
}, "image"), forKinds("/v1/realtime", {
  "response": async (model) => {
    const session = open(client, model);
    await next(session, "session.created");
    const { response, text } = await talk(session, prompt);
    equal(response.status, "completed", "status");
    equal(text, said, "text");
    equal(response.usage.output_tokens, 4, "output_tokens");
    session.close();
    await left(model);
  },
  "session that is cut": (model) => cut(model, async function* () {
    const session = open(client, model);
    session.on("error", () => {}); // the code says it too
    const deltas = [];
    let complete = false;
    session.on("response.output_text.delta", (e) => deltas.push(e.delta));
    session.on("response.done", () => { complete = true; });
    const closed = new Promise((resolve) => session.socket.addEventListener("close", resolve));
    await next(session, "session.created");
    session.send({ type: "response.create", response: {} });
    const { code } = await closed;
    yield* deltas;
    if (!complete && code !== 1000) throw new Error(`closed with ${code}`);
  }, () => {}, cuts.slice(0, 2)),
  "401 in the error": async (model) => assert(/401/.test((await failed(open(stranger, model))).message), "refused otherwise"),
  "404 in the error": async () => assert(/404/.test((await failed(open(client, missing))).message), "refused otherwise"),
}, "realtime")];
