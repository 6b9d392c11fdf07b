// Checks of the realtime API through the `openai` package's own session class.
import net from "node:net";
import tls from "node:tls";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { apiKey, assert, baseURL, equal, realtimeModel, run } from "./lib.mjs";

const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });

// The class always says wss: where the fleet has no TLS, only the transport
// under it is another.
const plain = new URL(baseURL).protocol === "http:";
const createConnection = (o) => (plain ? net : tls).connect({ ...o, path: undefined, servername: o.host });

function open() {
  return new OpenAIRealtimeWS({ model: realtimeModel, options: { createConnection } }, client);
}

function next(session, type) {
  return new Promise((resolve, reject) => {
    session.once(type, resolve);
    session.once("error", reject);
    session.socket.once("close", (code) => reject(new Error(`closed with ${code}, waiting for ${type}`)));
  });
}

await run({
  "realtime response": async () => {
    const session = open();
    const created = await next(session, "session.created");
    equal(created.session.type, "realtime", "session.type");
    let text = "";
    session.on("response.output_text.delta", (e) => { text += e.delta; });
    session.send({ type: "conversation.item.create", item: {
      type: "message", role: "user", content: [{ type: "input_text", text: "echo: one two three four" }] } });
    session.send({ type: "response.create", response: {} });
    const done = await next(session, "response.done");
    equal(done.response.status, "completed", "status");
    equal(text, "one two three four", "text");
    const code = new Promise((resolve) => session.socket.once("close", resolve));
    session.close({ code: 4000, reason: "enough" });
    equal(await code, 4000, "close code");
  },
  "realtime unknown model": async () => {
    const session = new OpenAIRealtimeWS({ model: "no-such-model", options: { createConnection } }, client);
    const error = await new Promise((resolve) => session.on("error", resolve));
    assert(/404/.test(error.message), `refused with ${error.message}`);
  },
});
