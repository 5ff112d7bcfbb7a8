#!/usr/bin/env bash
# Attention and its gradients on matrix units, on a CPU: the CUDA text that CubeCL makes of the kernels is run thread by thread, the instructions of a warp by
# their definition in PTX (emulate/warp.h), and compared with loops in f64. Prints a table; exit code 1 if something is wrong.
#
#     scripts/gpu/emulate.sh
#
# Needs what dry-run.sh needs, Python, and GCC 12 or another C++ compiler that has _Float16 (CXX names it).
set -euo pipefail
cd "$(dirname "$0")/../.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
XDG_CACHE_HOME=$scratch/cache CUBECL_DEBUG_LOG=$scratch/kernels.log DRY_DRIVER_STATS=$scratch/stats.json \
    scripts/gpu/dry-run.sh operations attention >"$scratch/dry-run.log" || { cat "$scratch/dry-run.log" >&2; exit 1; }

echo "| | width | pictures × heads × queries × keys | error | at most |"
echo "| --- | ---: | --- | ---: | ---: |"
right=0 found=""
while read -r kernel width file; do
    found=yes
    dtype=f16 number=__half
    case "$kernel" in *_bf16_*) dtype=bf16 number=__nv_bfloat16 ;; esac
    "${CXX:-g++}" -std=c++20 -O1 -w -Iscripts/gpu/emulate -DKERNEL_FILE="\"$file\"" -DKERNEL="$kernel" -DWIDTH="$width" -DNUMBER="$number" \
        -DPAIR="${number}_2" -DEIGHT="${number}_8" scripts/gpu/emulate/attention.cpp -o "$scratch/attention"
    "$scratch/attention" | sed "s/^| /| $dtype: /" || right=1
done < <(python3 scripts/gpu/emulate/kernel.py "$scratch/kernels.log" units_kernel "$scratch")
kernels() { python3 scripts/gpu/emulate/kernel.py "$scratch/kernels.log" "$1" "$scratch" | sed -E 's/^(.*_(bf16|f16)_.*) ([0-9]+) /\2-\3 \1 /' | sort; }
while read -r both query query_file key key_file; do
    width=${both#*-} dtype=${both%-*} number=__half
    [ "$dtype" = f16 ] || number=__nv_bfloat16
    "${CXX:-g++}" -std=c++20 -O1 -w -Iscripts/gpu/emulate -DQUERY_FILE="\"$query_file\"" -DQUERY_KERNEL="$query" -DKEY_FILE="\"$key_file\"" \
        -DKEY_KERNEL="$key" -DWIDTH="$width" -DNUMBER="$number" -DPAIR="${number}_2" -DEIGHT="${number}_8" scripts/gpu/emulate/gradients.cpp \
        -o "$scratch/gradients"
    "$scratch/gradients" | sed "s/^| /| $dtype: /" || right=1
done < <(join <(kernels units_query_grad_kernel) <(kernels units_key_value_grad_kernel))
[ -n "$found" ] || { echo "the dry run compiled no kernel of that name" >&2; exit 1; }
exit $right
