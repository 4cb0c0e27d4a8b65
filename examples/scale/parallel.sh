#!/bin/bash
# All shards by GNU parallel. HOSTS, if set, names hosts as parallel's --sshlogin does (4/host1,4/host2), which see the
# same files; else WORKERS (4) run here. A shard that is killed is run again, three times at most.
#
#   parallel.sh N PARTS MODEL OPTION...
set -eu
here=$(cd "$(dirname "$0")" && pwd) n=$1
shift
options=(--jobs "${WORKERS:-4}")
[ -z "${HOSTS:-}" ] || options=(--sshlogin "$HOSTS" --workdir "$PWD" --env QDQ)
seq "$n" | parallel --retries 3 --halt soon,fail=1 "${options[@]}" --quote "$here/calibrate_shard.sh" {} "$n" "$@"
