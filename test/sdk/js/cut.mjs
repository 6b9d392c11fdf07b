// A stream that the engine cuts: what does the SDK tell the program?
//
//   node cut.mjs openai|ai chat|completions|responses|transcriptions
//
// COLONNADE_MODEL names the model whose engine cuts its answers. Prints one
// line of JSON and exits with 0 if the SDK raised an error of its own after it
// had delivered something. Retries are the SDK's default: whoever set the fault
// counts the requests.
import { createOpenAI } from "@ai-sdk/openai";
import { AISDKError, streamText } from "ai";
import OpenAI, { toFile } from "openai";
import { apiKey, baseURL, need } from "./lib.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;
const [sdk, api] = process.argv.slice(2);
const model = need("COLONNADE_MODEL");
const prompt = "talk";

const client = new OpenAI({ baseURL, apiKey });
const openaiPieces = {
  async *chat() {
    const stream = await client.chat.completions.create({ model, messages: [{ role: "user", content: prompt }], stream: true });
    for await (const c of stream) yield c.choices[0]?.delta.content;
  },
  async *completions() {
    for await (const c of await client.completions.create({ model, prompt, stream: true })) yield c.choices[0]?.text;
  },
  async *responses() {
    for await (const e of await client.responses.create({ model, input: prompt, stream: true })) {
      if (e.type === "response.output_text.delta") yield e.delta;
    }
  },
  async *transcriptions() {
    const file = await toFile(Buffer.alloc(4096), "speech.wav");
    for await (const e of await client.audio.transcriptions.create({ model, file, stream: true })) {
      if (e.type === "transcript.text.delta") yield e.delta;
    }
  },
};

// `ai` hands an error event on as a part of the stream, as it came, and throws
// when the connection is cut.
let told, reason;
const provider = createOpenAI({ baseURL, apiKey });
async function* aiPieces(model) {
  for await (const part of streamText({ model, prompt, onError: () => {} }).fullStream) {
    if (part.type === "text-delta") yield part.text;
    if (part.type === "error") told ??= part.error;
    if (part.type === "finish") reason = part.finishReason;
  }
  if (told) throw told;
}

const pieces = {
  openai: openaiPieces[api],
  ai: { chat: () => aiPieces(provider.chat(model)), responses: () => aiPieces(provider(model)),
    completions: () => aiPieces(provider.completion(model)) }[api],
}[sdk];
if (!pieces) {
  console.error("usage: node cut.mjs openai|ai chat|completions|responses|transcriptions");
  process.exit(2);
}

let delivered = 0, text = "", error;
try {
  for await (const piece of pieces()) {
    if (!piece) continue;
    delivered++;
    text += piece;
  }
} catch (e) {
  error = e;
}
const own = error instanceof OpenAI.OpenAIError || AISDKError.isInstance(error) || (error !== undefined && error === told);
console.log(JSON.stringify({
  sdk, api, error_class: error === undefined ? null : error?.constructor?.name ?? typeof error, own,
  message: String(error?.message ?? error ?? "").slice(0, 200), code: error?.code, status: error?.status ?? error?.statusCode,
  event: told?.message, finish_reason: reason, delivered, text,
}));
if (error === undefined) console.error("the SDK took the cut stream for a complete one");
else if (delivered === 0) console.error("nothing was delivered before the error");
else if (!own) console.error("the error is not one of the SDK's own");
process.exit(error !== undefined && delivered > 0 && own ? 0 : 1);
