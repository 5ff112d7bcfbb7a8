#!/bin/bash
# The Kubernetes Jobs: checked against the schemas of Kubernetes and for what schemas do not know, and their commands run here
# with JOB_COMPLETION_INDEX set as Kubernetes would; the joined run is compared with an undivided one.
#
#   scripts/cluster/test-kubernetes.sh
#
# Installs kubernetes-validate from PyPI into an environment of its own. PREPOSE names a program that is built already.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/scripts/cluster
source "$here/common.sh"
need_prepose
python=$(python_with kubernetes-validate)
work=$(mktemp -d /tmp/prepose-kubernetes.XXXXXX)
trap 'rm -rf "$work"' EXIT

export PREPOSE_SHARDS=3 PREPOSE_IMAGE=registry.example/prepose:1
line="spatialbench-uc --limit 4 --seeds 0-1 --steps 3 --negative-prompt 'a \"b\" \\ c: #d'"
export PREPOSE_ARGS=$line

# Writes both Jobs with the given variables and checks them.
check() {
    local kind
    for kind in run merge; do
        env "$@" bash "$here/kubernetes.sh" $kind > "$work/$kind.yaml"
        for version in 1.34.0 1.37.0; do
            "$(dirname "$python")/kubernetes-validate" --strict -k $version "$work/$kind.yaml" > "$work/log" 2>&1 \
                || { cat "$work/log"; exit 1; }
        done
        "$python" "$here/check-job.py" "$work/$kind.yaml" "$PREPOSE_SHARDS" "$PREPOSE_ARGS"
    done
}
check PREPOSE_RUN=s3://bucket/run PREPOSE_SECRET=s3
check PREPOSE_RUN=gs://bucket/run PREPOSE_SECRET=gs PREPOSE_GPUS=1 PREPOSE_MODELS=models PREPOSE_PARALLEL=2 PREPOSE_NAME=other
check PREPOSE_RUN=/runs/run PREPOSE_CLAIM=runs PREPOSE_MEMORY=8Gi PREPOSE_OUT=/runs/joined
echo "6 Jobs are valid in Kubernetes 1.34 and 1.37, and as they should be"
for broken in PREPOSE_RUN=/elsewhere PREPOSE_RUN=/runs/x PREPOSE_SHARDS= PREPOSE_IMAGE=; do
    if env PREPOSE_RUN=s3://b/r "$broken" bash "$here/kubernetes.sh" > /dev/null 2> "$work/log"; then
        echo "$broken was accepted"; exit 1
    fi
done
# The checks themselves notice what is wrong.
for change in s/Indexed/Indexd/ 's/completions: 3/completions: 4/' s/Never/Always/ 's/containerName: worker/containerName: x/' \
    '/image:/d' 's/values: \[2\]/values: [0, 2]/' s/--shards/--shard/; do
    env PREPOSE_RUN=s3://b/r bash "$here/kubernetes.sh" | sed "$change" > "$work/broken.yaml"
    if "$python" "$here/check-job.py" "$work/broken.yaml" "$PREPOSE_SHARDS" "$PREPOSE_ARGS" > /dev/null 2>&1; then
        echo "not noticed: $change"; exit 1
    fi
done
echo "what the schemas do not know is noticed by check-job.py"

# The containers' commands, in their environment.
mkdir "$work/bin"
ln -s "$PREPOSE" "$work/bin/prepose"
export PREPOSE_CLAIM=runs
job() {
    local file=$work/$1-$RANDOM.yaml
    env PREPOSE_RUN=/runs/run bash "$here/kubernetes.sh" "$1" | sed "s|/runs/run|$work/run|" > "$file"
    shift
    "$python" - "$file" "$work/bin" "$@" <<'PYTHON'
import os, sys, yaml
container = yaml.safe_load(open(sys.argv[1]))["spec"]["template"]["spec"]["containers"][0]
environment = {entry["name"]: entry["value"] for entry in container["env"]}
environment |= {"PATH": sys.argv[2] + ":/usr/bin:/bin", "HOME": os.environ["HOME"]}
environment |= dict(pair.split("=", 1) for pair in sys.argv[3:])
os.execvpe(container["command"][0], container["command"], environment)
PYTHON
}
pids=()
for index in 0 1 2; do
    job run JOB_COMPLETION_INDEX=$index > "$work/log.$index" 2>&1 &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || { cat "$work"/log.*; exit 1; }; done
# An index that is begun again has nothing to do; one that does not exist is an error that fails the index.
job run JOB_COMPLETION_INDEX=1 > /dev/null 2>&1
code=0
job run JOB_COMPLETION_INDEX=3 > "$work/log" 2>&1 || code=$?
[ $code = 2 ] || { echo "exit code $code"; cat "$work/log"; exit 1; }
echo "index 3 of 3: $(cat "$work/log")"
job merge
eval "args=($line)"
"$PREPOSE" --quiet run "${args[@]}" --shard 0/1 --out "$work/whole"
same_runs "$work/whole" "$work/run"
echo "kubernetes: all is well"
