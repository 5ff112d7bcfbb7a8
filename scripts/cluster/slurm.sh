#!/bin/bash
# Submits a run as a Slurm array, one task a shard, and a job that joins the shards when all are done.
#
#   PREPOSE_RUN=/shared/runs/visor PREPOSE_SHARDS=16 PREPOSE_ARGS='visor --method psg --checkpoint sd15.safetensors' \
#       scripts/cluster/slurm.sh [options of sbatch, such as --partition=gpu --gpus=1 --time=4:00:00]
#
# PREPOSE_RUN     the run: a folder that all nodes see, or s3://bucket/run with the credentials in the environment
# PREPOSE_SHARDS  how many parts
# PREPOSE_ARGS    what follows `prepose run`, quoted as for a shell
# PREPOSE_OUT     where the joined run goes [PREPOSE_RUN]
# PREPOSE         the program [prepose]
# PREPOSE_TRIES   how often a task that is killed or runs out of time is begun again [20]
#
# Said again after a failure, it goes on where the tasks stopped. Prints the ids of the two jobs.
set -euo pipefail
: "${PREPOSE_RUN:?is not set: the folder or object store of the run}"
: "${PREPOSE_SHARDS:?is not set: how many shards}"
: "${PREPOSE_ARGS:?is not set: what follows prepose run}"
export PREPOSE_RUN PREPOSE_SHARDS PREPOSE_ARGS PREPOSE_OUT=${PREPOSE_OUT:-$PREPOSE_RUN} PREPOSE=${PREPOSE:-prepose}
export PREPOSE_TRIES=${PREPOSE_TRIES:-20}
here=$(cd "$(dirname "$0")" && pwd)
array=$(sbatch --parsable --export=ALL --array="0-$((PREPOSE_SHARDS - 1))" "$@" "$here/shard.slurm")
merge=$(sbatch --parsable --export=ALL --dependency="afterok:$array" --kill-on-invalid-dep=yes "$here/merge.slurm")
echo "$array $merge"
