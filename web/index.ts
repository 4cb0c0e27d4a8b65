// The door for browsers and workers: the module's bytes are fetched.
import { QdqError } from "../bindings/api/error.js";
import { openDoor } from "../bindings/api/module.js";

openDoor(async (url) => {
  const response = await fetch(url);
  if (!response.ok) throw new QdqError("Io", `cannot fetch ${url}: the server answered ${response.status}`);
  return response.arrayBuffer();
});

export * from "../bindings/api/index.js";
