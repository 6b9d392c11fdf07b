// A realtime session while the fleet ends: prints "ready" once it runs, and waits for its end.
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { apiKey, assert, baseURL, equal, realtimeModel, run } from "./lib.mjs";
import { options } from "./session.mjs";

const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });

await run({
  "session drained": async () => {
    const session = new OpenAIRealtimeWS({ model: realtimeModel, options }, client);
    const errors = [];
    session.on("error", (e) => errors.push(e.message));
    await new Promise((resolve) => session.once("session.created", resolve));
    console.log("ready");
    const [code, reason] = await new Promise((resolve) => session.socket.once("close", (...args) => resolve(args)));
    equal(code, 1001, "close code");
    assert(/is (ending|shutting down)$/.test(reason), `reason ${reason}`);
    equal(errors.join(), "", "errors");
  },
});
