#!/usr/bin/env bash
# Installs the packed npm package in an empty folder and uses it as a stranger would: by scripts that import qdq or
# qdq/run, as ES modules and as CommonJS, and through npx, to succeed and to fail. Wants dist/ to be built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
shapes=$PWD/examples/shapes
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# What npm thinks of this machine's settings is not of interest.
export npm_config_loglevel=error
fail() { printf 'tarball: %s\n' "$*" >&2; exit 1; }

npm pack --silent --pack-destination "$folder" >/dev/null
mkdir "$folder/app"; cd "$folder/app"
printf '{"private": true}\n' >package.json
npm install --silent --no-audit --no-fund "$folder"/qdq-*.tgz
[ "$(ls node_modules)" = qdq ] || fail "the package brought others with it: $(ls node_modules)"

# Its README is that of the package, and that of the repository is as it was.
cmp -s node_modules/qdq/README.md "$OLDPWD/node/README.md" || fail "the package has another README than node/README.md"
grep -q '^./dev demo' "$OLDPWD/README.md" || fail "packing left another README.md in the checkout"

# The links of its documents lead to files of the package.
cat >links.cjs <<'END'
const { existsSync, readFileSync, readdirSync } = require("node:fs");
const path = require("node:path");
const root = "node_modules/qdq";
const documents = readdirSync(root, { recursive: true }).filter((name) => name.endsWith(".md"));
const dead = documents.flatMap((name) =>
  [...readFileSync(path.join(root, name), "utf8").matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)]
    .filter(([, to]) => !/^[a-z]+:/.test(to) && !existsSync(path.join(root, path.dirname(name), to)))
    .map(([, to]) => `${name}: ${to}`),
);
console.log(dead.join("\n") || `${documents.length} documents`);
END
node links.cjs | grep -q '^[1-9][0-9]* documents$' || fail "the package has dead links: $(node links.cjs)"

# What is in it is listed, and nothing runs on installation.
cat >supply.cjs <<'END'
const { components } = require("./node_modules/qdq/dist/sbom.cdx.json");
const { dependencies = {}, scripts = {} } = require("./node_modules/qdq/package.json");
const runs = Object.keys(scripts).filter((name) => /install|prepare/.test(name));
console.log(components.map(({ name }) => name).join(), Object.keys(dependencies).length, runs.length);
END
[ "$(node supply.cjs)" = "highway,xsimd,protozero,nlohmann-json,CLI11,stb,emscripten 0 0" ] ||
  fail "the list of what the package is made of is another: $(node supply.cjs)"

cat >quantize.mjs <<'END'
import { readFile, writeFile } from "node:fs/promises";
import {
  convertPt2e, getSymmetricQuantizationConfig, loadPt2, lower, preparePt2e, savePt2, tensor, XNNPACKQuantizer,
} from "qdq";

const program = await loadPt2(await readFile(process.argv[2]));
const config = getSymmetricQuantizationConfig({ isPerChannel: true });
const prepared = preparePt2e(program, new XNNPACKQuantizer().setGlobal(config));
const shape = program.info().inputs[0].shape.map((size) => (typeof size === "number" ? size : 2));
const count = shape.reduce((a, b) => a * b, 1);
const image = tensor(Float32Array.from({ length: count }, (_, i) => Math.sin(i * 0.37)), shape);
prepared.run([image]);
const quantized = convertPt2e(prepared);
await writeFile("script.int8.pt2", savePt2(quantized));
const [logits] = lower(quantized).run([image]);
console.log(JSON.stringify([logits.dtype, logits.shape[0], logits.data.every(Number.isFinite)]));
END
[ "$(node quantize.mjs "$shapes/model.pt2")" = '["float32",2,true]' ] || fail "the script did not quantize"
[ "$(stat -c %s script.int8.pt2)" -lt "$(stat -c %s "$shapes/model.pt2")" ] || fail "the quantized model is not smaller"

cat >run.mjs <<'END'
import { readFile } from "node:fs/promises";
import { capabilities, loadPt2, lower, tensor } from "qdq/run";

const session = lower(await loadPt2(await readFile("script.int8.pt2")));
const [logits] = session.run([tensor(new Float32Array(3 * 40 * 40), [1, 3, 40, 40])]);
const { module } = await capabilities();
console.log(JSON.stringify([module.replace("-relaxed", ""), logits.shape[0], logits.data.every(Number.isFinite)]));
END
[ "$(node run.mjs)" = '["qdq-run.wasm",1,true]' ] || fail "qdq/run did not run the quantized model"
[ "$(node -p 'typeof require("qdq/run").lower')" = function ] || fail "a CommonJS script cannot require qdq/run"

cat >broken.cjs <<'END'
const { loadPt2, QdqError } = require("qdq");
loadPt2(new Uint8Array(100)).then(
  () => process.exit(3),
  (error) => console.log(error instanceof QdqError, error.code, error.message.length > 20));
END
[ "$(node broken.cjs)" = "true BadFile true" ] || fail "a broken file did not give a QdqError to a CommonJS script"

# Links of the README and of what it links to lead to files of the package.
for page in node_modules/qdq/README.md node_modules/qdq/docs/*.md; do
  while read -r link; do
    [ -z "$link" ] || [ -e "$(dirname "$page")/$link" ] || fail "$page links to $link, which the package does not have"
  done < <(grep -o '](\([^)#:]*\)[#)]' "$page" | sed 's/^](//; s/[#)]$//')
done

# A strict consumer compiles, with or without the names of browsers.
project=$OLDPWD
cp "$project/tests/js/consumer.ts" consumer.ts
compile() {
  printf '{"compilerOptions": {"strict": true, "exactOptionalPropertyTypes": true, "noEmit": true, "target": "ES2022",
    %s}, "files": ["consumer.ts"]}\n' "$1" >tsconfig.json
  "$project/node_modules/.bin/tsc" >out.txt || fail "a strict consumer does not compile with $1: $(cat out.txt)"
}
compile '"module": "NodeNext", "lib": ["ES2022", "DOM"], "types": []'
compile '"module": "ES2022", "moduleResolution": "Bundler", "lib": ["ES2022", "DOM"], "types": []'
compile '"module": "NodeNext", "lib": ["ES2022"], "types": ["node"], "typeRoots": ["'"$project"'/node_modules/@types"]'

data=(--calibrate "$shapes/calibration" --preprocess "$shapes/preprocess.json")
npx --no qdq quantize "$shapes/model.pt2" "${data[@]}" --limit 8 -o npx.int8.pt2 >out.txt 2>err.txt ||
  fail "npx could not quantize: $(cat err.txt)"
grep -q 'layers quantized' out.txt || fail "npx printed no summary: $(cat out.txt)"
[ -s npx.int8.pt2 ] || fail "npx wrote no model"

head -c 5000 "$shapes/model.pt2" >cut.pt2
status=0; npx --no qdq quantize cut.pt2 "${data[@]}" -o no.pt2 >out.txt 2>err.txt || status=$?
[ $status = 1 ] || fail "a broken model ended with status $status"
if [ "$(wc -l <err.txt)" != 1 ] || ! grep -q '^qdq: cut.pt2' err.txt; then
  fail "a broken model gave no clear line: $(cat err.txt)"
fi
[ ! -e no.pt2 ] || fail "a failed run left an output"
[ ! -s out.txt ] || fail "a failed run printed a summary"
status=0; npx --no qdq quantize cut.pt2 2>err.txt || status=$?
[ $status = 2 ] || fail "missing options ended with status $status"
# Its code is that of the checkout, and a tarball whose code is not is found out.
"$project/dev" package --verify "$folder"/qdq-*.tgz >out.txt || fail "the package is not what its checkout builds"
[ "$(grep -c '\.wasm$' out.txt)" = 10 ] || fail "not all modules were compared: $(cat out.txt)"
cp -r node_modules/qdq "$folder/package"
printf '\0' >>"$folder/package/dist/qdq.wasm"
tar -czf "$folder/changed.tgz" -C "$folder" package
! "$project/dev" package --verify "$folder/changed.tgz" >out.txt 2>&1 || fail "a changed module was not found out"
grep -q 'dist/qdq.wasm differs' out.txt || fail "the changed module is not named: $(cat out.txt)"
echo "the package works: script, npx, and their failures"
