// `qdq` in Node.
import { whole } from "../bindings/api/module.js";
import { door } from "./door.js";

whole.open(
  door,
  () => import("../bindings/wasm/qdq-threads.js"),
  () => import("../bindings/wasm/qdq-memory64.js"),
);

export * from "../bindings/api/index.js";
