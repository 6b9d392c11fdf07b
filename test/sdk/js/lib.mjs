// What the scripts share: where the fleet is, and how a check is told.
import { createInterface } from "node:readline";

export const baseURL = need("COLONNADE_BASE_URL");
export const apiKey = process.env.COLONNADE_API_KEY ?? "none";
export const chatModel = process.env.COLONNADE_CHAT_MODEL ?? "demo-chat";
export const embedModel = process.env.COLONNADE_EMBED_MODEL ?? "demo-embed";
export const realtimeModel = process.env.COLONNADE_REALTIME_MODEL ?? "demo-realtime";

export function need(name) {
  const value = process.env[name];
  if (!value) {
    console.error(`set ${name}`);
    process.exit(2);
  }
  return value;
}

export function assert(ok, message) {
  if (!ok) throw new Error(message);
}

export function equal(got, want, what) {
  assert(got === want, `${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

// raised runs f and returns what it threw.
export async function raised(f, when = "") {
  try {
    await f();
  } catch (e) {
    return e;
  }
  throw new Error(`no error was raised ${when}`);
}

// run does the checks one after the other, prints a line for each, and exits
// with 1 if one failed.
export async function run(checks) {
  let failed = 0;
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check();
      console.log(`ok ${name}`);
    } catch (e) {
      failed++;
      console.log(`FAILED ${name}: ${e?.stack ?? e}`);
    }
  }
  if (failed) {
    console.error(`${failed} of ${Object.keys(checks).length} checks failed`);
    process.exit(1);
  }
}

// What follows is for the programs that are run against engines of several kinds: see README.md.

// origin is the base URL of clients that add /v1, or a path of another API, themselves.
export const origin = baseURL.replace(/\/v1$/, "");

export const prompt = "echo: one two three four";
export const said = "one two three four";
export const toolCall = 'call: weather {"city":"Paris"}'; // answered by a call of the tool weather
export const missing = "no-such-model";
export const wrongKey = "cn_0000_wrong";

// kinds are the kinds of engines that have a path.
const kinds = JSON.parse(process.env.COLONNADE_KINDS ?? "{}");

// withOne makes checks that do not depend on the kind of engine, with an engine of the first kind that has the path.
export function withOne(path, features) {
  const [kind] = kinds[path] ?? [];
  const checks = {};
  if (kind) for (const [feature, check] of Object.entries(features)) checks[`${path} any ${feature}`] = () => check(`sim-${kind}`, `single-${kind}`);
  return checks;
}

// forKinds makes the checks of a path: each feature, with an engine of each kind. A feature gets the names of a model with room, and of
// one with a single slot and a stream without end.
export function forKinds(path, features, model = "sim", single = "single") {
  const checks = {};
  for (const kind of kinds[path] ?? []) {
    for (const [feature, check] of Object.entries(features)) {
      checks[`${path} ${kind} ${feature}`] = () => check(`${model}-${kind}`, `${single}-${kind}`);
    }
  }
  return checks;
}

// differs says what a program that uses this client on a path must know. The caller collects it for its page.
export function differs(path, what) {
  console.log(`differs ${path} ${what}`);
}

let lines; // of standard input

// tell tells the caller something about a model, and returns its answer.
async function tell(what, model) {
  lines ??= createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  console.log(`${what} ${model}`);
  return (await lines.next()).value;
}

// left returns when the caller has seen that the model's engine is idle, though its stream had no end.
export async function left(model) {
  equal(await tell("left", model), "idle", "the engine, after the client has left");
}

// cuts are the ways in which engines cut their answers. With the last, HTTP's end is there, and only that of the stream is missing.
export const cuts = ["cut_at_chunk", "cut_in_chunk", "no_done"];

// cut has the model's engine cut its next answers in several ways, each of which `pieces` reads. The SDK must have delivered the part before and
// raise an error, which `check` looks at, and must not send the request again.
export async function cut(model, pieces, check = () => {}, faults = cuts) {
  for (const fault of faults) {
    equal(await tell("fault", `${model} ${fault}`), "set", "the engine");
    let delivered = 0;
    const e = await raised(async () => {
      for await (const piece of pieces()) if (piece) delivered++;
    }, fault);
    assert(delivered > 0, `${fault}: nothing was delivered before the error`);
    equal(await tell("requests", model), "1", `${fault}: requests of the stream that was cut`);
    check(e);
  }
}

// engineFailed is what the gateway says of an answer that an engine has cut.
export const engineFailed = "the inference engine failed";

// eventually does a check until it passes, for half a minute.
export async function eventually(check) {
  for (const end = performance.now() + 30_000; ;) {
    try {
      return await check();
    } catch (e) {
      if (performance.now() > end) throw e;
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

// until reads a stream until a part is wanted, and does not leave it, as the end of a loop would.
export async function until(stream, wanted) {
  for (const parts = stream[Symbol.asyncIterator](); ;) {
    const { value, done } = await parts.next();
    assert(!done, "the stream ended");
    if (wanted(value)) return;
  }
}

// never makes a request that finds no slot fail at once.
export const never = { "x-colonnade-queue": "never" };

// refusedFirst holds the one slot of a model by `hold`, which resolves to a function that lets go, and sends a request that retries. Its first
// attempt is refused, which lets go; it must come back when the refusal said, and not earlier.
export async function refusedFirst(hold, send) {
  let letGo = await hold();
  const attempts = [];
  const watched = async (...args) => {
    const sent = performance.now();
    const answer = await fetch(...args);
    const wait = Number(answer.headers.get("retry-after-ms"));
    attempts.push({ sent, got: performance.now(), wait, status: answer.status });
    letGo?.();
    letGo = undefined;
    return answer;
  };
  await send(watched);
  assert(attempts.length > 1, "no attempt was refused");
  for (const [i, a] of attempts.entries()) {
    if (i === attempts.length - 1) equal(a.status, 200, "status of the last attempt");
    else {
      equal(a.status, 429, "status of an attempt before the last");
      assert(a.wait > 0, "no retry-after-ms");
      const waited = attempts[i + 1].sent - a.got;
      assert(waited > a.wait - 20, `came back after ${waited} ms, though told ${a.wait}`);
    }
  }
}

// runKinds does the checks and lets the process end.
export async function runKinds(...checks) {
  await run(Object.assign({}, ...checks));
  process.stdin.destroy();
}

// isA compares an error with what a program expects.
export function isA(e, kind, status) {
  assert(e instanceof kind, `raised ${e?.constructor?.name}: ${e?.message}, want ${kind.name}`);
  if (status !== undefined) equal(e.status ?? e.status_code, status, "status");
  assert(e.message.length > 4, "the error has no message");
}
