// `qdq/run` in Node.
import { runner } from "../bindings/api/run-module.js";
import { door } from "./door.js";

runner.open(door, () => import("../bindings/wasm/qdq-run-threads.js"));

export * from "../bindings/api/run.js";
