// Checks of the realtime API through the `openai` package's own session classes, and through `ws`.
import OpenAI from "openai";
import { OpenAIRealtimeWebSocket } from "openai/realtime/websocket";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { WebSocket } from "ws";
import { apiKey, assert, baseURL, equal, realtimeModel, run } from "./lib.mjs";
import { failed, next, options } from "./session.mjs";

const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const busyModel = process.env.COLONNADE_BUSY_REALTIME_MODEL;

// What a browser has: no headers can be set, so the key comes as a subprotocol.
globalThis.WebSocket = class extends WebSocket {
  constructor(url, protocols) { super(url, protocols, options); }
};

const open = (model = realtimeModel, headers) => new OpenAIRealtimeWS({ model, options: { ...options, headers } }, client);

async function talk(session) {
  const created = await next(session, "session.created");
  equal(created.session.type, "realtime", "session.type");
  let text = "", deltas = 0;
  session.on("response.output_text.delta", (e) => { text += e.delta; deltas++; });
  for (const words of ["one two three four", "five six"]) {
    text = "", deltas = 0;
    session.send({ type: "conversation.item.create", item: {
      type: "message", role: "user", content: [{ type: "input_text", text: `echo: ${words}` }] } });
    session.send({ type: "response.create", response: {} });
    const { response } = await next(session, "response.done");
    equal(response.status, "completed", "status");
    equal(text, words, "text");
    assert(deltas > 1, `the text came in ${deltas} pieces`);
    equal(response.usage.output_tokens, deltas, "output_tokens");
    equal(response.usage.total_tokens, response.usage.input_tokens + deltas, "total_tokens");
  }
  const closed = new Promise((resolve) => session.socket.addEventListener("close", resolve));
  session.close({ code: 4000, reason: "enough" });
  const { code, reason } = await closed;
  equal(code, 4000, "close code");
  equal(reason, "enough", "reason");
}

// refused is the HTTP answer instead of an upgrade.
function refused(model, headers = {}) {
  const url = `${baseURL.replace(/^http/, "ws")}/realtime?model=${model}`;
  const socket = new WebSocket(url, { headers: { Authorization: `Bearer ${apiKey}`, ...headers } });
  return new Promise((resolve, reject) => {
    socket.on("open", () => reject(new Error("it was not refused")));
    socket.on("error", reject);
    socket.on("unexpected-response", async (_, answer) => {
      let body = "";
      for await (const piece of answer) body += piece;
      resolve({ status: answer.statusCode, headers: answer.headers, error: JSON.parse(body).error });
    });
  });
}

await run({
  "realtime response": () => talk(open()),
  "realtime response, key in the subprotocol": () => talk(new OpenAIRealtimeWebSocket({ model: realtimeModel }, client)),
  "realtime unknown model": async () => {
    const error = await failed(open("no-such-model"));
    assert(/404/.test(error.message), `refused with ${error.message}`);
  },
  "realtime refusals can be read": async () => {
    const { status, error } = await refused("no-such-model");
    equal(status, 404, "status");
    equal(error.code, "model_not_found", "code");
    assert(error.message.includes("no-such-model"), `message ${error.message}`);
  },
  ...(process.env.COLONNADE_EXPECT_401 && {
    "realtime wrong key": async () => {
      const { status, error } = await refused(realtimeModel, { Authorization: "Bearer wrong" });
      equal(status, 401, "status");
      equal(error.code, "invalid_api_key", "code");
      const stranger = new OpenAI({ baseURL, apiKey: "cn_wrong_0123456789abcdefghij" });
      const told = await failed(new OpenAIRealtimeWebSocket({ model: realtimeModel }, stranger));
      assert(/401/.test(told.message), `refused with ${told.message}`);
    },
  }),
  ...(busyModel && {
    "realtime out of capacity": async () => {
      const { status, headers, error } = await refused(busyModel, { "x-colonnade-queue": "never" });
      equal(status, 429, "status");
      equal(error.code, "out_of_capacity", "code");
      equal(error.reason, "busy", "reason");
      assert(Number(headers["retry-after"]) > 0, `retry-after ${headers["retry-after"]}`);
      const told = await failed(open(busyModel, { "x-colonnade-queue": "never" }));
      assert(/429/.test(told.message), `refused with ${told.message}`);
    },
  }),
  "realtime messages of all kinds through ws": async () => {
    const socket = new WebSocket(`${baseURL.replace(/^http/, "ws")}/realtime?model=${realtimeModel}`, "realtime", {
      headers: { Authorization: `Bearer ${apiKey}` } }); // with compression on offer, as ws does
    equal(JSON.parse((await once(socket, "message"))[0]).type, "session.created", "type");
    equal(socket.extensions, "", "extensions");
    equal(socket.protocol, "realtime", "protocol");
    socket.ping("are you there");
    equal((await once(socket, "pong"))[0].toString(), "are you there", "pong");
    socket.send('{"type":"sess', { fin: false });
    socket.send('ion.update","session":{}}', { fin: true });
    equal(JSON.parse((await once(socket, "message"))[0]).type, "session.updated", "type");
    socket.send(Buffer.from('{"type":"response.create","response":{"max_output_tokens":2}}'), { binary: true });
    equal(JSON.parse((await once(socket, "message"))[0]).type, "response.created", "type");
    socket.close();
    equal((await once(socket, "close"))[0], 1005, "close code");
  },
});

function once(socket, event) {
  return new Promise((resolve, reject) => {
    socket.once(event, (...args) => resolve(args));
    socket.once("error", reject);
    if (event !== "close") socket.once("close", (code) => reject(new Error(`closed with ${code}, waiting for ${event}`)));
  });
}
