#!/usr/bin/env bash
# prepose and diffusers in turn, on the same device, with the same random weights, in one go.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: compare.sh [options] [-- options of `prepose bench sheet`]

Makes random weights where there are none, runs `prepose bench sheet` and the same rows with diffusers in turn, and
writes OUT/compare-DEVICE-DATE.json and .md with the ratios.

  --prepose PROGRAM   [default: target/release/prepose, else the one on the PATH]
  --python PROGRAM    one that has torch, diffusers and transformers [default: python3]
  --device DEVICE     of prepose: cuda, flex (the CPU) ... [default: auto]; diffusers takes cuda for cuda, else the CPU
  --weights DIR       where random weights are kept [default: prepose-weights in the folder for temporary files]
  --out DIR           [default: benches/results]
  --budget SECONDS    of each side, all rounds together [default: 480]
  --rounds N          of each side [default: 2]
  --compile           a third side: torch.compile, on CUDA with graphs
  --threads N         of both, on the CPU [default: all]
  --instructions NAME the widest that both take from the CPU: avx2, avx512, avx512-bf16, amx [default: all]

Example: compare.sh --rounds 3 -- --checkpoints sd15 --batches 1 --only matmul,unet,picture
TEXT
}

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
prepose="" python=python3 device=auto output="$root/benches/results" budget=480 rounds=2 compile="" threads=$(nproc) instructions=""
weights="${TMPDIR:-/tmp}/prepose-weights"
# What is recorded: all but where things lie.
words=()
while [ $# -gt 0 ]; do
    case "$1" in
        --device | --budget | --rounds | --threads | --instructions) words+=("$1" "${2-}") ;;
        --compile) words+=("$1") ;;
        --) words+=("$@") ;;
    esac
    case "$1" in
        --prepose | --python | --device | --weights | --out | --budget | --rounds | --threads | --instructions)
            [ $# -ge 2 ] || { echo "error: $1 needs a value" >&2; exit 2; } ;;
    esac
    case "$1" in
        --prepose) prepose=$2; shift 2 ;;
        --python) python=$2; shift 2 ;;
        --device) device=$2; shift 2 ;;
        --weights) weights=$2; shift 2 ;;
        --out) output=$2; shift 2 ;;
        --budget) budget=$2; shift 2 ;;
        --rounds) rounds=$2; shift 2 ;;
        --threads) threads=$2; shift 2 ;;
        --instructions) instructions=$2; shift 2 ;;
        --compile) compile=yes; shift ;;
        --) shift; break ;;
        -h | --help) usage; exit 0 ;;
        *) echo "error: unknown option $1; --help lists them" >&2; exit 2 ;;
    esac
done
if [ -z "$prepose" ]; then
    prepose="$root/target/release/prepose"
    [ -x "$prepose" ] || prepose=$(command -v prepose || true)
fi
if [ -z "$prepose" ] || ! command -v "$prepose" >/dev/null; then
    echo "error: no prepose program; build it with \`cargo build --release\` or name it with --prepose" >&2
    exit 2
fi
if ! "$python" -c 'import torch, diffusers, transformers' 2>/dev/null; then
    echo "error: $python lacks torch, diffusers or transformers; \`$python -m pip install torch diffusers transformers accelerate\`," \
        "or name another with --python" >&2
    exit 2
fi
case "$rounds$budget$threads" in *[!0-9]*) echo "error: --rounds, --budget and --threads are whole numbers" >&2; exit 2 ;; esac
[ "$rounds" -ge 1 ] || { echo "error: --rounds is 0, but must be at least 1" >&2; exit 2; }

export RAYON_NUM_THREADS=$threads OMP_NUM_THREADS=$threads MKL_NUM_THREADS=$threads HF_HUB_OFFLINE=1
if [ -n "$instructions" ]; then
    # PyTorch itself, oneDNN and MKL.
    case "$instructions" in
        avx2) limits=(avx2 AVX2 AVX2) ;;
        avx512) limits=(avx512 AVX512_CORE AVX512) ;;
        avx512-bf16) limits=(avx512 AVX512_CORE_BF16 AVX512) ;;
        amx) limits=(avx512 AVX512_CORE_AMX AVX512) ;;
        *) echo "error: --instructions is $instructions, but may be avx2, avx512, avx512-bf16 or amx" >&2; exit 2 ;;
    esac
    export PREPOSE_INSTRUCTIONS=$instructions
    export ATEN_CPU_CAPABILITY=${limits[0]} ONEDNN_MAX_CPU_ISA=${limits[1]} MKL_ENABLE_INSTRUCTIONS=${limits[2]}
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
each=$((budget / rounds))
plan=""
for round in $(seq "$rounds"); do
    echo "round $round of $rounds: prepose" >&2
    options=(--device "$device" --weights "$weights" --budget "${each}s" --json -o "$scratch/sheets")
    if [ -z "$plan" ]; then
        "$prepose" bench sheet "${options[@]}" "$@" >"$scratch/ours-$round.json"
        plan="$scratch/ours-$round.json"
    else
        "$prepose" bench sheet "${options[@]}" --like "$plan" >"$scratch/ours-$round.json"
    fi
    kind=$("$python" -c 'import json, sys; print("cuda" if json.load(open(sys.argv[1]))["machine"]["device"].startswith("cuda") else "cpu")' "$plan")
    echo "round $round of $rounds: diffusers" >&2
    "$python" "$here/diffusers_sheet.py" --like "$plan" --device "$kind" --budget "$each" -o "$scratch/theirs-$round.json"
    if [ -n "$compile" ]; then
        echo "round $round of $rounds: diffusers, compiled" >&2
        "$python" "$here/diffusers_sheet.py" --like "$plan" --device "$kind" --budget "$each" --compile -o "$scratch/compiled-$round.json"
    fi
done
mkdir -p "$output"
stem=$(basename "$(find "$scratch/sheets" -name '*.md' | sort -r | head -n 1)" .md)
target="$output/compare-$stem"
number=1
while [ -e "$target.json" ]; do
    number=$((number + 1))
    target="$output/compare-$stem-$number"
done
compiled=()
[ -z "$compile" ] || compiled=(--compiled "$scratch"/compiled-*.json)
"$python" "$here/compare_tables.py" -o "$target" --command "scripts/bench/compare.sh ${words[*]}" \
    --ours "$scratch"/ours-*.json --theirs "$scratch"/theirs-*.json "${compiled[@]}"
echo "$target.json" >&2
echo "$target.md" >&2
