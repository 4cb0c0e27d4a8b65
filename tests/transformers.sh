#!/usr/bin/env bash
# Makes the files of a small model for transformers.js by the packed npm package, by its command and its function, and
# classifies sentences with each in @huggingface/transformers, which comes from npm into build/transformers. Wants dist/
# to be built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
project=$PWD work=$PWD/build/transformers
export npm_config_loglevel=error ONNXRUNTIME_NODE_INSTALL_CUDA=skip ONNXRUNTIME_NODE_INSTALL=skip
rm -rf "$work"; mkdir -p "$work"
npm pack --silent --pack-destination "$work" >/dev/null
cd "$work"
printf '{"private": true, "type": "module"}\n' >package.json
npm install --silent --no-audit --no-fund ./qdq-*.tgz @huggingface/transformers@4
cp "$project"/tests/transformers/*.mjs .
for folder in command function; do
  mkdir -p "models/$folder/onnx"
  cp "$project"/tests/golden/transformers_js/*.json "models/$folder"
done
npx --no -- qdq quantize "$project/tests/golden/transformers_js/onnx/model.onnx" --for transformers.js -o models/command
node make.mjs "$project/tests/golden/transformers_js/onnx/model.onnx" models/function
for file in models/command/onnx/*; do cmp "$file" "models/function/onnx/${file##*/}"; done
node check.mjs models command
