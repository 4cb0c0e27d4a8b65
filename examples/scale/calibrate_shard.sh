#!/bin/sh
# One shard, which is all that an engine has to run: calibrates on shard K of N and writes PARTS/K.json, unless an
# earlier run has. It may be killed at any time and run again, on any host, also twice at once.
#
#   calibrate_shard.sh K N PARTS MODEL OPTION...       with the options of `qdq calibrate`: --data, --preprocess, ...
#
# QDQ is the program (npx qdq).
set -eu
k=$1 n=$2 parts=$3
shift 3
[ ! -e "$parts/$k.json" ] || exit 0
# shellcheck disable=SC2086 # QDQ may be several words
exec ${QDQ:-npx qdq} calibrate "$@" --shard "$k/$n" -o "$parts/$k.json"
