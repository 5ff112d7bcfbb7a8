#!/usr/bin/env bash
# Everything that CUDA would be asked to do, without a GPU: kernels are compiled by NVIDIA's own compiler for the device that
# DRY_DRIVER_DEVICE names, memory is allocated on paper, nothing is computed (dry_driver.c).
#
#     scripts/gpu/dry-run.sh operations [NAME...]      every operation of prepose-kernels, or NAME, or those with NAME in theirs
#     scripts/gpu/dry-run.sh CHECKPOINT [--size N] [--batch N] [--steps N] [--dtype f16|bf16|f32] [--guide]
#
# Needs NVRTC and its headers: pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cuda-crt, or a toolkit.
# CUBECL_AUTOTUNE_LEVEL=minimal tries fewer kernels for each product. Writes the counts to dry-run.json.
set -euo pipefail
cd "$(dirname "$0")/../.."

where=$(scripts/package/prepose.sh --where)
headers=$(sed -n 's/^headers: //p' <<<"$where")
nvrtc=$(sed -n 's/^NVRTC: //p' <<<"$where")
if [ ! -d "$headers" ] || [ ! -d "$nvrtc" ]; then
    echo "NVRTC was not found ($where); see the head of $0" >&2
    exit 2
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cc -O1 -shared -fPIC -o "$scratch/libcuda.so.1" scripts/gpu/dry_driver.c

cargo build --release --locked --example cuda_dry_run
target=$(cargo metadata --format-version 1 --no-deps | sed -E 's/.*"target_directory":"([^"]+)".*/\1/')
CUDA_PATH=$headers LD_LIBRARY_PATH=$scratch:$nvrtc DRY_DRIVER_STATS=${DRY_DRIVER_STATS:-dry-run.json} \
    "$target/release/examples/cuda_dry_run" "$@"
