// What the scripts share: where the fleet is, and how a check is told.

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
export async function raised(f) {
  try {
    await f();
  } catch (e) {
    return e;
  }
  throw new Error("no error was raised");
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
