// Checks all Python with ruff, by the settings of ruff.toml. ruff comes from npm as a WASM module: Debian has none.
// usage: node tests/ruff.mjs [--write]    --write: apply the format, and the mends that ruff is sure of
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { PositionEncoding, Workspace } from "@astral-sh/ruff-wasm-nodejs";

// Of TOML what ruff.toml needs: sections, and values on one line that are JSON too.
function readToml(text) {
  const settings = {};
  let section = settings;
  for (const line of text.split("\n")) {
    const [, path, key, value] = /^(?:\[([\w.-]+)\]|([\w-]+) = (.*))$/.exec(line) ?? [];
    if (path) section = path.split(".").reduce((outer, name) => (outer[name] ??= {}), settings);
    else if (key) section[key] = JSON.parse(value);
  }
  return settings;
}

const write = process.argv.includes("--write");
const ruff = new Workspace(readToml(readFileSync("ruff.toml", "utf8")), PositionEncoding.Utf16);
const files = ["examples", "tests"].flatMap((top) =>
  readdirSync(top, { recursive: true })
    .filter((name) => name.endsWith(".py"))
    .map((name) => `${top}/${name}`),
);
const failures = files.length ? [] : ["there is no Python here; run it at the top of the checkout"];
for (const file of files) {
  const text = readFileSync(file, "utf8");
  const formatted = ruff.format(text);
  if (write && formatted !== text) writeFileSync(file, formatted);
  else if (formatted !== text) failures.push(`${file}: not in ruff's format; ./dev format writes it`);
  for (const { code, message, start_location: at } of ruff.check(write ? formatted : text)) {
    failures.push(`${file}:${at.row}:${at.column}: ${code} ${message}`);
  }
}
for (const failure of failures) console.error(failure);
if (failures.length) process.exitCode = 1;
