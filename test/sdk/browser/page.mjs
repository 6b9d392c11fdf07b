// Checks of a fleet from a web page, which reports the results to its own server: {check: "ok" or what went wrong}.

import OpenAI from "/node_modules/openai/index.mjs";

const { baseURL, apiKey, listed } = await (await fetch("/config")).json();
const client = new OpenAI({ baseURL, apiKey, dangerouslyAllowBrowser: true, maxRetries: 0 });
const messages = [{ role: "user", content: "hello" }];

function assert(ok, what) {
  if (!ok) throw new Error(what);
}

async function raised(f) {
  try {
    await f();
  } catch (e) {
    return e;
  }
  throw new Error("no error was raised");
}

// post sends a request that needs no preflight: a blob has no content type.
function post(mode) {
  const body = new Blob([JSON.stringify({ model: "demo-chat", messages })]);
  return fetch(baseURL + "/chat/completions", { method: "POST", mode, body });
}

// session opens a realtime session and returns its first event, or rejects.
function session() {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(baseURL.replace("http", "ws") + "/realtime?model=demo-realtime", ["realtime", "openai-insecure-api-key." + apiKey]);
    socket.onmessage = (m) => {
      resolve(JSON.parse(m.data).type);
      socket.close();
    };
    socket.onerror = () => reject(new Error("the session was refused"));
  });
}

const ofListed = {
  async "SDK, plain"() {
    const { data, response } = await client.chat.completions.create({ model: "demo-chat", messages }).withResponse();
    assert(data.choices[0].message.content, "no text");
    for (const name of ["x-request-id", "x-colonnade-colo", "x-colonnade-attempts"]) {
      assert(response.headers.get(name), `${name} cannot be read`);
    }
  },
  async "SDK, stream"() {
    for (const headers of [{}, { "x-colonnade-queue-events": "1" }]) {
      let text = "";
      for await (const chunk of await client.chat.completions.create({ model: "demo-chat", messages, stream: true }, { headers })) {
        text += chunk.choices[0]?.delta?.content ?? "";
      }
      assert(text, "no text");
    }
  },
  async "SDK, refusal"() {
    const headers = { "x-colonnade-queue": "never" };
    const e = await raised(() => client.chat.completions.create({ model: "busy", messages }, { headers }));
    assert(e instanceof OpenAI.RateLimitError, `${e}`);
    assert(Number(e.headers.get("retry-after")) > 0, "retry-after cannot be read");
    assert(e.headers.get("x-colonnade-reason") === "busy", "the reason cannot be read");
  },
  async "SDK, models"() {
    assert((await client.models.list()).data.length > 0, "no models");
  },
  async "fetch without a preflight"() {
    assert((await (await post("cors")).json()).choices[0].message.content, "no text");
  },
  async session() {
    const first = await session();
    assert(first === "session.created", first);
  },
};

const ofOthers = {
  async SDK() {
    const e = await raised(() => client.chat.completions.create({ model: "demo-chat", messages }));
    assert(e instanceof OpenAI.APIConnectionError, `${e}`);
  },
  async "fetch without a preflight"() {
    const e = await raised(() => post("cors"));
    assert(e instanceof TypeError, `${e}`);
    assert((await post("no-cors")).type === "opaque", "the answer can be read");
  },
  async models() {
    const e = await raised(() => fetch(baseURL + "/models"));
    assert(e instanceof TypeError, `${e}`);
  },
  async session() {
    await raised(session);
  },
};

// within rejects if a check takes longer than any should, so that the report names it.
function within(check) {
  return Promise.race([check(), new Promise((_, reject) => setTimeout(() => reject(new Error("it has not ended after 30 s")), 30_000))]);
}

const results = {};
for (const [name, check] of Object.entries(listed ? ofListed : ofOthers)) {
  try {
    await within(check);
    results[name] = "ok";
  } catch (e) {
    results[name] = `${e?.stack ?? e}`;
  }
}
await fetch("/report", { method: "POST", body: JSON.stringify(results) });
