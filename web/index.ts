// `qdq` in browsers.
import { whole } from "../bindings/api/module.js";
import { door } from "./door.js";

whole.open(door);

export * from "../bindings/api/index.js";
