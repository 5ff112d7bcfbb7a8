#!/usr/bin/env bash
# Runs the fuzz targets of tests/fuzz and writes what came of them.
#
#   scripts/fuzz/run.sh [--seconds N] [--parallel N] [TARGET...]
#
# Each target runs for N seconds (60), all of them if none is named, one after the other or some in parallel. What was
# found to be of interest is kept in target/fuzz/corpus/TARGET and used again; inputs that break something are
# target/fuzz/findings/TARGET-*. The exit code is 1 if there are any. Needs a C++ compiler; no sanitizer and no nightly
# toolchain.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=60 parallel=1 targets=()
while [ $# -gt 0 ]; do
    case $1 in
        --seconds) seconds=$2; shift ;;
        --parallel) parallel=$2; shift ;;
        -*) sed -n '2,/^set/{/^#/p}' "$0"; exit 2 ;;
        *) targets+=("$1") ;;
    esac
    shift
done
if [ ${#targets[@]} = 0 ]; then
    mapfile -t targets < <(sed -n 's/^    ("\([a-z-]*\)", .*/\1/p' tests/fuzz/src/lib.rs)
fi

RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/fuzz/rustc.sh \
    cargo build --release --locked -p prepose-fuzz --features libfuzzer --bin fuzz
program=${CARGO_TARGET_DIR:-target}/release/fuzz

home=${CARGO_TARGET_DIR:-target}/fuzz
mkdir -p "$home/findings" "$home/logs"

# Writes what a target begins with into the folder.
seeds() {
    local target=$1 folder=$2 file
    lines() { head -q -n 20 "$@" | split -l 1 -a 3 - "$folder/line-"; }
    files() { for file in "$@"; do cp "$file" "$folder/${file//\//_}"; done; }
    case $target in
        safetensors) files fixtures/lora/*-sd1.safetensors fixtures/pickle/*.safetensors ;;
        pytorch) files fixtures/pickle/*.{pt,zip,pkl} ;;
        pickle) files fixtures/pickle/*.pkl tests/fuzz/seeds/*.pkl ;;
        prompt-* | scene | messages) lines tests/fuzz/seeds/prompts.txt fixtures/scenes/t2i-compbench/*.txt ;;
        records) lines fixtures/spatialbench-uc/*/eval/per_sample.jsonl fixtures/audit/*.jsonl ;;
        checker-config) files fixtures/spatialbench-uc/*/eval/checker_config.yaml ;;
        audit-tables) files fixtures/audit/* ;;
        judge-answers | scene-graphs | scene-answers | judge-books | chat-answers | endpoint-answers | source-templates | requests)
            lines "tests/fuzz/seeds/$target.txt" ;;
        detected) lines fixtures/corpus/boxes.jsonl ;;
        captions) lines fixtures/corpus/captions.jsonl ;;
        caption-files) files fixtures/corpus/parquet/* ;;
        spatialgen) files fixtures/spatialgen/*.jsonl ;;
        pictures) files docs/dog-cat.png ;;
        methods) files scripts/*/*.toml ;;
        prompt-files) files fixtures/scenes/t2i-compbench/spatial.txt tests/fuzz/seeds/prompts.txt ;;
    esac
}

# Runs one target and writes its line; fails if something was found.
fuzz() {
    local target=$1 corpus=$home/corpus/$1 log=$home/logs/$1.log found=0
    mkdir -p "$corpus"
    seeds "$target" "$corpus"
    PREPOSE_FUZZ_TARGET=$target "$program" "$corpus" -max_total_time="$seconds" -max_len=16384 -timeout=10 \
        -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$home/findings/$target-" 2>"$log" || found=1
    awk -v target="$target" '
        /^#[0-9]+/ { for (i = 1; i <= NF; i++) if ($i == "cov:") cov = $(i + 1) }
        /stat::number_of_executed_units/ { runs = $2 }
        /^Done [0-9]+ runs in/ { seconds = $5 }
        /SUMMARY: libFuzzer/ { found = substr($0, index($0, "libFuzzer: ") + 11) }
        END { printf "%-16s %12d runs %6d s %6d edges  %s\n", target, runs, seconds, cov, found ? found : "nothing found" }
    ' "$log"
    return $found
}

failed=0 running=0
for target in "${targets[@]}"; do
    if [ "$running" = "$parallel" ]; then
        wait -n || failed=1
        running=$((running - 1))
    fi
    fuzz "$target" &
    running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
    wait -n || failed=1
    running=$((running - 1))
done
exit $failed
