#!/usr/bin/env bash
# Installs the packed npm package and the engines that npm has (Node 22 and 24, Deno, Bun) in build/engines, and lets
# each, and this Node, quantize by a script, run the result by qdq/run and in a worker, and use the command line, whose
# bytes must be those of this Node. Wants dist/ to be built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
shapes=$PWD/examples/shapes work=$PWD/build/engines
export npm_config_loglevel=error
fail() { printf 'engines: %s\n' "$*" >&2; exit 1; }

rm -rf "$work/app"; mkdir -p "$work/app"
for engine in node@22 node@24 deno bun; do
  [ -d "$work/$engine/node_modules" ] ||
    npm install --silent --no-audit --no-fund --prefix "$work/$engine" "$engine"
done
npm pack --silent --pack-destination "$work" >/dev/null
cd "$work/app"
printf '{"private": true}\n' >package.json
npm install --silent --no-audit --no-fund ../qdq-*.tgz

cat >quantize.mjs <<'END'
import { readFile, writeFile } from "node:fs/promises";
import { convertPt2e, loadPt2, preparePt2e, savePt2, tensor } from "qdq";
import { loadPt2 as loadToRun, lower } from "qdq/run";
import { openSession } from "qdq/async";

const bytes = await readFile(process.argv[2]);
const image = () => tensor(Float32Array.from({ length: 4800 }, (_, i) => Math.sin(i * 0.37)), [1, 3, 40, 40]);
const prepared = preparePt2e(await loadPt2(bytes), { quantizer: "XNNPACKQuantizer", global: { isPerChannel: true } });
prepared.run([image()]);
const quantized = savePt2(convertPt2e(prepared));
const [here] = lower(await loadToRun(quantized)).run([image()]);
const session = await openSession(quantized);
const [there] = Object.values(await session.run([image()]));
console.log(here.shape.join(), String(here.data) === String(there.data));
process.exit(0);
END

hash=
run() {
  local name=$1; shift
  [ "$("$@" quantize.mjs "$shapes/model.pt2")" = "1,16 true" ] || fail "the script does not work in $name"
  rm -f cli.int8.pt2
  "$@" node_modules/qdq/dist/cjs/node/cli.js quantize "$shapes/model.pt2" --calibrate "$shapes/calibration" \
    --preprocess "$shapes/preprocess.json" --limit 16 -o cli.int8.pt2 >/dev/null ||
    fail "the command line fails in $name"
  local found; found=$(sha256sum <cli.int8.pt2)
  [ "${hash:=$found}" = "$found" ] || fail "the command line writes other bytes in $name"
  printf '%s: %s\n' "$name" "$("$1" --version | head -1)"
}
run "this Node" node
for engine in node@22 node@24; do
  run "$engine" "$(find -L "$work/$engine/node_modules" -path '*/bin/node' -type f | head -1)"
done
run Deno "$work/deno/node_modules/.bin/deno" run -A
run Bun "$work/bun/node_modules/.bin/bun"
