#!/bin/bash
# A run divided over the tasks of a Slurm array, tested with a real Slurm on this machine: one task's prepose is killed, one
# task is requeued while it runs, one is told that its time is over, and one loses its Slurm daemon, so that two copies of it
# run at once. Then the shards are joined by the dependent job and compared with an undivided run.
#
#   scripts/cluster/test-slurm.sh
#
# As root; installs Debian's slurm-wlm and munge, listens on 127.0.0.1 only, leaves nothing running. PREPOSE names a program
# that is built already. A few minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/scripts/cluster
source "$here/common.sh"
need_packages slurm-wlm munge
need_prepose
started=$SECONDS

work=$(mktemp -d /tmp/prepose-slurm.XXXXXX)
orphans=()
cleanup() {
    bash "$here/slurm-cluster.sh" down "$work/slurm" || true
    for pid in "${orphans[@]}"; do kill -KILL "$pid" 2> /dev/null || true; done
    [ -n "${KEEP:-}" ] || rm -rf "$work"
}
trap cleanup EXIT
say() { echo "$(printf '%4d s' $((SECONDS - started)))  $*"; }
fail() { say "FAILED: $*"; tail -n 20 "$work"/jobs/*.log "$work"/slurm/log/*.log; exit 1; }

export PREPOSE_SHARDS=5 PREPOSE_RUN=$work/run
line=${LINE:-spatialbench-uc --limit 12 --seeds 0-2 --steps 20 --batch 2 --method prompt-only,psg,boxdiff}
export PREPOSE_ARGS="$line"

SLOTS=6 PORT=$(free_port) bash "$here/slurm-cluster.sh" up "$work/slurm"
export SLURM_CONF=$work/slurm/slurm.conf
say "$(sinfo --version) is up"

mkdir "$work/jobs" && cd "$work/jobs"
read -r array merge < <(bash "$here/slurm.sh" --mem=512)
say "array $array of $PREPOSE_SHARDS tasks, merge $merge"

# The processes of a task's prepose.
copies() {
    local pid
    for pid in $(pgrep -x "$(basename "$PREPOSE" | cut -c1-15)"); do
        {
            tr '\0' '\n' < "/proc/$pid/environ" | grep -qx "SLURM_ARRAY_JOB_ID=$array" || continue
            tr '\0' '\n' < "/proc/$pid/environ" | grep -qx "SLURM_ARRAY_TASK_ID=$1" || continue
            tr '\0' ' ' < "/proc/$pid/cmdline" | grep -q ' run ' || continue
        } 2> /dev/null
        echo "$pid"
    done
}
pictures() { find "$PREPOSE_RUN"/"$(printf 'shard-%03d-of-%03d' "$1" $PREPOSE_SHARDS)" -path '*/samples/*.json' 2> /dev/null | wc -l; }
# Waits until a task has begun to make pictures.
at_work() {
    for _ in $(seq 600); do
        if [ "$(pictures "$1")" -ge 1 ] && [ -n "$(copies "$1")" ]; then return; fi
        sleep 0.1
    done
    fail "task $1 makes no pictures"
}
restarts() { scontrol show job "${array}_$1" 2> /dev/null | grep -oE 'Restarts=[0-9]+' | cut -d= -f2; }

at_work 1
victim=$(copies 1)
kill -KILL $victim
say "task 1: prepose $victim killed with $(pictures 1) pictures of its first method done"

at_work 2
scontrol requeue "${array}_2"
say "task 2: requeued while it ran, $(pictures 2) pictures done"

at_work 3
scancel --batch --signal=USR1 "${array}_3"
say "task 3: told that its time is over, $(pictures 3) pictures done"

at_work 4
first=$(copies 4)
job=$(tr '\0' '\n' < "/proc/$first/environ" | sed -n 's/^SLURM_JOB_ID=//p')
kill -KILL "$(pgrep -f "slurmstepd: \[$job\.batch\]")"
orphans+=("$first" "$(ps -o ppid= -p "$first" | tr -d ' ')")
# So that the first copy is still there when the second begins.
kill -STOP "$first"
say "task 4: its slurmstepd killed; prepose $first goes on without Slurm"
two=
for try in $(seq 300); do
    now=$(copies 4 | tr '\n' ' ')
    if [ "$(wc -w <<< "$now")" -ge 2 ]; then two=$now; break; fi
    # The node's next report tells Slurm that the task is lost; this asks for one.
    [ $((try % 20)) -ne 1 ] || scontrol reconfigure
    sleep 0.2
done
kill -CONT "$first"
[ -n "$two" ] || fail "task 4 never ran twice at once"
say "task 4: two copies at once, $two"

for _ in $(seq 1200); do
    [ -n "$(squeue -h -j "$array,$merge" 2> /dev/null)" ] || break
    sleep 0.5
done
for task in $(seq 0 $((PREPOSE_SHARDS - 1))); do
    state=$(scontrol show job "${array}_$task" | grep -oE 'JobState=[A-Z]+' | head -1)
    say "task $task: $state, restarts $(restarts "$task")"
    [ "$state" = JobState=COMPLETED ] || fail "task $task"
done
state=$(scontrol show job "$merge" | grep -oE 'JobState=[A-Z]+')
say "merge: $state: $(tail -n 1 prepose-merge-*.log)"
[ "$state" = JobState=COMPLETED ] || fail merge
for task in 1 2 3 4; do [ "$(restarts $task)" -ge 1 ] || fail "task $task was not begun again"; done
for _ in $(seq 100); do kill -0 "$first" 2> /dev/null || break; sleep 0.2; done

# shellcheck disable=SC2086
"$PREPOSE" --quiet run $line --shard 0/1 --out "$work/whole"
same_runs "$work/whole" "$PREPOSE_RUN"
# The copy that Slurm had lost may have written after the others.
"$PREPOSE" merge "$PREPOSE_RUN" --out "$work/again" > /dev/null
same_runs "$work/whole" "$work/again"
say "the joined run of $(wc -l < "$work/whole/psg/manifest.jsonl") pictures by each method is the undivided one; what the tasks said:"
grep -hE 'restart|back into|going on' prepose-"$array"_*.log | sed 's/^/        /'
echo "slurm: all is well"
