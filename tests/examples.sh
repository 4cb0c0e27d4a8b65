#!/usr/bin/env bash
# Checks what `./dev demo` left in build/demo: both builds wrote one model, and it is about as good as the one that
# PyTorch makes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
shapes=examples/shapes
./dev qdq evaluate $shapes/model.pt2 build/demo/native.int8.pt2 --data $shapes/test --labels $shapes/test/labels.csv \
  --preprocess $shapes/preprocess.json --json >build/demo/scores.json
cmp build/demo/native.int8.pt2 build/demo/npx.int8.pt2
# shellcheck disable=SC2016 # the script is JavaScript
node -e '
  const { readFileSync } = require("node:fs");
  const read = (file) => JSON.parse(readFileSync(file, "utf8"));
  const [float, int8] = read("build/demo/scores.json");
  const torch = read("examples/shapes/accuracy_torch.json").results;
  const check = (name, found, wanted, slack) => {
    const good = Math.abs(found - wanted) <= slack;
    const verdict = good ? "" : ", which is too far away";
    console.log(`${name}: ${found.toFixed(2)} %, PyTorch ${wanted.toFixed(2)} %${verdict}`);
    if (!good) process.exitCode = 1;
  };
  check("float top-1", float.top1, torch.float.top1, 0.3);
  check("int8 top-1", int8.top1, torch.xnnpack_per_channel.top1, 1.6);
  check("int8 agreement with float", int8.agreement, torch.xnnpack_per_channel.agree, 2.5);
  if (int8.bytes > float.bytes / 2) {
    console.log(`the int8 model is not small: ${int8.bytes} bytes`);
    process.exitCode = 1;
  }'
node examples/backend_quantizer/backend_quantizer.mjs

# Those that npm brings packages for, with the packed one of qdq.
project=$PWD work=$PWD/build/npm-examples
export npm_config_loglevel=error
rm -rf "$work"; mkdir -p "$work"
npm pack --silent --pack-destination "$work" >/dev/null
cd "$work"
printf '{"private": true, "type": "module"}\n' >package.json
npm install --silent --no-audit --no-fund ./qdq-*.tgz fastify@5 yaml@2
node "$project/tests/examples_npm.mjs" "$project"
