#!/usr/bin/env bash
# Builds a small page with Vite, webpack, esbuild and Rollup from the packed npm package, as strangers do, in
# build/bundlers. `./dev lane bundlers` then opens the pages in Chromium. Wants dist/ to be built; the bundlers come
# from npm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
project=$PWD work=$PWD/build/bundlers
export npm_config_loglevel=error
rm -rf "$work"; mkdir -p "$work"
npm pack --silent --pack-destination "$work" >/dev/null
cd "$work"
printf '{"private": true, "type": "module"}\n' >package.json
npm install --silent --no-audit --no-fund ./qdq-*.tgz vite@7 webpack@5 esbuild@0.25 rollup@4 \
  @rollup/plugin-node-resolve@16 @rollup/plugin-url@8
cp "$project"/tests/bundlers/main.js "$project/examples/shapes/model.pt2" .
for tool in vite webpack esbuild rollup; do
  case $tool in vite|webpack) place=found ;; *) place=imported ;; esac
  cp "$project/tests/bundlers/$place.js" place.js
  node "$project/tests/bundlers/build.mjs" "$tool" "$PWD/model.pt2" "$work/$tool"
done
cp "$project/tests/bundlers/found.js" place.js
# The page of examples/vite_page, with the model and the names that its README says.
cp -r "$project/examples/vite_page" vite_page; mkdir vite_page/public
cp "$project/examples/shapes/classes.txt" vite_page/public
shapes=$project/examples/shapes
npx --no qdq quantize "$shapes/model.pt2" --calibrate "$shapes/calibration" --preprocess "$shapes/preprocess.json" \
  -o vite_page/public/model.int8.pt2 >/dev/null
npx --no -- vite build vite_page --logLevel warn
