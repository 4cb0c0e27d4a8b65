#!/bin/sh
# All shards without an engine, WORKERS (4) at a time.
#
#   loop.sh N PARTS MODEL OPTION...
set -eu
here=$(dirname "$0") n=$1
shift
# What failed is run again as long as something came of the round before.
for round in 1 2 3; do
  seq "$n" | xargs -P "${WORKERS:-4}" -I{} "$here/calibrate_shard.sh" {} "$n" "$@" && exit 0
  echo "loop.sh: round $round left shards out" >&2
done
exit 1
