// What the checks of realtime sessions share.
import net from "node:net";
import { baseURL } from "./lib.mjs";

// options are those of sockets. The classes of `openai` always say wss: where the fleet has no TLS, only the transport under them is another.
export const options = new URL(baseURL).protocol === "http:" ? { createConnection: (o) => net.connect({ ...o, path: undefined }) } : {};

// next resolves to the next event of a type.
export function next(session, type) {
  return new Promise((resolve, reject) => {
    session.once(type, resolve);
    session.once("error", reject);
    session.socket.addEventListener("close", (e) => reject(new Error(`closed with ${e.code}, waiting for ${type}`)));
  });
}

// failed resolves to the next error.
export const failed = (session) => new Promise((resolve) => session.on("error", resolve));
