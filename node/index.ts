// The door for Node: the module's bytes come from the package's folder.
import { readFile } from "node:fs/promises";
import { openDoor } from "../bindings/api/module.js";

openDoor((url) => readFile(url));

export * from "../bindings/api/index.js";
