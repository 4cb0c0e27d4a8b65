// `qdq/run` in browsers.
import { runner } from "../bindings/api/run-module.js";
import { door } from "./door.js";

runner.open(door);

export * from "../bindings/api/run.js";
