#!/bin/bash
# Runs each engine on this machine with 4 workers of which one is killed in the middle, and holds the int8 model
# against that of one process.
#
#   test.sh [loop] [parallel] [slurm] [dask] [bullmq]        all that are named; without names, all
#
# QDQ is the program. An engine that is not installed is skipped, which is said and counted. `./dev test scale` runs
# this where the engines are.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$root/build/scale
shards=16 workers=4
program=${QDQ:-$root/build/native/qdq}
shapes=$root/examples/shapes
words=("$shapes/model.pt2" --data "$shapes/calibration" --preprocess "$shapes/preprocess.json" --batch-size 2)
engines=("$@")
[ $# -gt 0 ] || engines=(loop parallel slurm dask bullmq)
skipped=0 ids=()
mkdir -p "$work"

# What takes as many seconds longer than qdq as a file says, so that there is a middle to be killed in.
cat >"$work/slow_qdq" <<END
#!/bin/bash
sleep "\$(cat "$work/seconds_more")"
exec $program "\$@"
END
chmod +x "$work/slow_qdq"
export QDQ=$work/slow_qdq WORKERS=$workers

# Nothing of the servers is needed any more, and some take half a minute to end by themselves.
stop() { for id in ${ids[@]+"${ids[@]}"}; do kill -KILL "$id" 2>/dev/null || true; done; wait 2>/dev/null; ids=(); }
trap stop EXIT
parts_of() { find "$1" -name '*.json' | wc -l; }

# Once some parts are there, kills the process whose id the command prints, without a chance to clean up.
kill_one() {
  local parts=$1 id=''; shift
  until [ "$(parts_of "$parts")" -ge 2 ]; do sleep 0.1; done
  until [ -n "$id" ] && kill -KILL "$id" 2>/dev/null; do id=$("$@"); sleep 0.02; done
  echo "$id" >"$parts/killed"
}
a_shard() { pgrep --full "$work/slow_qdq calibrate .*$parts/" | head -n 1 || true; }
first_id() { echo "${ids[1]}"; }

# --- engines: `begin` starts what has to run, `all_shards` takes N PARTS MODEL OPTION..., `victim` names who dies -----

begin_loop() { :; }
shards_by_loop() { "$here/loop.sh" "$@"; }
victim_of_loop() { a_shard; }

begin_parallel() { command -v parallel >/dev/null || return 1; }
shards_by_parallel() { "$here/parallel.sh" "$@"; }
victim_of_parallel() { a_shard; }

begin_slurm() {
  command -v slurmctld >/dev/null && command -v slurmd >/dev/null && command -v munged >/dev/null || return 1
  local state=$work/slurm
  rm -rf "$state"; mkdir -p "$state/controller" "$state/node" /run/munge
  chown munge /run/munge /var/lib/munge /var/log/munge
  [ -e /etc/munge/munge.key ] || mungekey --create
  chown munge /etc/munge/munge.key
  setpriv --reuid munge --clear-groups munged --foreground --num-threads 2 >"$state/munged.log" 2>&1 & ids+=($!)
  cat >"$state/slurm.conf" <<END
ClusterName=qdq
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmUser=root
StateSaveLocation=$state/controller
SlurmdSpoolDir=$state/node
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=0
ReturnToService=2
NodeName=$(hostname) NodeAddr=127.0.0.1 CPUs=$workers State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
END
  export SLURM_CONF=$state/slurm.conf
  echo 'CgroupPlugin=disabled' >"$state/cgroup.conf"
  slurmctld -D >"$state/slurmctld.log" 2>&1 & ids+=($!)
  slurmd -D >"$state/slurmd.log" 2>&1 & ids+=($!)
  for _ in $(seq 100); do
    sinfo --noheader --format=%t 2>/dev/null | grep -q idle && return 0
    sleep 0.2
  done
  tail -n 5 "$state"/*.log >&2
  echo "Slurm did not start" >&2; exit 1
}
shards_by_slurm() {
  # Slurm lets two minutes pass before it starts a task again that was queued again.
  sbatch --wait --quiet --array="1-$1" --output="$work/slurm/task-%a.log" "$here/slurm.sh" "$here" "$@"
}
victim_of_slurm() { a_shard; }

begin_dask() {
  python3 -c 'import distributed' 2>/dev/null || return 1
  python3 -m distributed.cli.dask_scheduler --host 127.0.0.1 --port 8786 --no-dashboard >"$work/dask.log" 2>&1 &
  ids+=($!)
  for _ in $(seq "$workers"); do
    python3 -m distributed.cli.dask_worker tcp://127.0.0.1:8786 --no-nanny --nthreads 1 --no-dashboard \
      --local-directory "$work/dask" >>"$work/dask.log" 2>&1 & ids+=($!)
  done
}
shards_by_dask() { python3 "$here/dask_shards.py" tcp://127.0.0.1:8786 "$@"; }
victim_of_dask() { first_id; }

begin_bullmq() {
  local server folder=$work/bullmq
  server=$(command -v valkey-server || command -v redis-server) && [ -d "$folder/node_modules/bullmq" ] || return 1
  cp "$here/bullmq.mjs" "$folder/"
  export SHARD=$here/calibrate_shard.sh REDIS=redis://127.0.0.1:6390
  "$server" --port 6390 --bind 127.0.0.1 --save '' --dir "$folder" >"$work/server.log" 2>&1 & ids+=($!)
  sleep 1
  for _ in $(seq "$workers"); do node "$folder/bullmq.mjs" work >>"$work/bullmq.log" 2>&1 & ids+=($!); done
}
shards_by_bullmq() { node "$work/bullmq/bullmq.mjs" add "$@"; }
victim_of_bullmq() { first_id; }

# --- the test ---------------------------------------------------------------------------------------------------------

hash_of() { # of the model that the parts make
  "$program" merge "$1" -o "$1.statistics.json" >/dev/null 2>&1
  "$program" quantize "$shapes/model.pt2" --calibrate "$1.statistics.json" -o "$1.pt2" >/dev/null 2>&1
  sha256sum <"$1.pt2"
}
seconds() { date +%s.%N; }
elapsed() { echo "$1 $(seconds)" | awk '{printf "%.1f", $2 - $1}'; }

rm -rf "$work/whole"; mkdir "$work/whole"
"$program" calibrate "${words[@]}" -o "$work/whole/1.json" >/dev/null 2>&1
wanted=$(hash_of "$work/whole")

for engine in "${engines[@]}"; do
  if ! "begin_$engine"; then
    echo "$engine: skipped, it is not installed"
    skipped=$((skipped + 1)); stop
    continue
  fi
  parts=$work/parts-$engine
  for kind in plain killed; do
    rm -rf "$parts"; mkdir "$parts"
    echo 0 >"$work/seconds_more"
    killer=''
    if [ "$kind" = killed ]; then
      echo 1 >"$work/seconds_more"
      kill_one "$parts" "victim_of_$engine" & killer=$!
    fi
    began=$(seconds)
    "shards_by_$engine" "$shards" "$parts" "${words[@]}" >"$work/$engine.log" 2>&1 ||
      { cat "$work/$engine.log" >&2; echo "$engine failed" >&2; exit 1; }
    took=$(elapsed "$began")
    if [ -n "$killer" ]; then
      wait "$killer"
      [ -s "$parts/killed" ] || { echo "$engine: nothing was killed" >&2; exit 1; }
    fi
    [ "$(hash_of "$parts")" = "$wanted" ] || { echo "$engine, $kind: another model" >&2; exit 1; }
    if [ "$kind" = plain ]; then echo "$engine: $shards shards in $took s, the same model"
    else echo "$engine: with a worker killed in the middle and a second more for each shard $took s, the same model"; fi
  done
  stop
done
# As `./dev test` counts them.
echo "Tests: $((${#engines[@]} - skipped)) passed, $skipped skipped"
