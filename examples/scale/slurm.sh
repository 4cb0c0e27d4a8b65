#!/bin/sh
# A Slurm job array, a task for each shard; a task that is killed is queued again, three times at most.
#
#   sbatch --array=1-N slurm.sh FOLDER N PARTS MODEL OPTION...
#
# FOLDER is that of calibrate_shard.sh: Slurm runs a copy of this script from elsewhere. PARTS, MODEL and the data lie
# where all nodes see them.
#SBATCH --job-name=qdq-calibrate
#SBATCH --cpus-per-task=1
#SBATCH --requeue
#SBATCH --open-mode=append
set -eu
folder=$1
shift
"$folder/calibrate_shard.sh" "$SLURM_ARRAY_TASK_ID" "$@" && exit 0
[ "${SLURM_RESTART_COUNT:-0}" -ge 3 ] || scontrol requeue "$SLURM_JOB_ID"
exit 1
