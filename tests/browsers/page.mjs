// Sends what this browser makes of the example to the server of run.mjs; `?threads=N` says with how many threads.
import { answers } from "./answers.mjs";
import * as qdq from "/dist/esm/web/index.js";
import * as run from "/dist/esm/web/run.js";
import * as async from "/dist/esm/web/async.js";

const threads = Number(new URLSearchParams(location.search).get("threads") ?? 0);
const read = async (file) => new Uint8Array(await (await fetch(`/${file}`)).arrayBuffer());
const tell = (answer) => fetch("/answer", { method: "POST", body: JSON.stringify(answer) });
addEventListener("error", ({ message }) => tell({ error: message }));
try {
  const began = performance.now();
  const found = await answers({ qdq, run, async, read, threads });
  const { module } = await qdq.capabilities();
  await tell({ found, module, seconds: (performance.now() - began) / 1000, engine: navigator.userAgent });
} catch (error) {
  await tell({ error: String(error?.stack ?? error) });
}
