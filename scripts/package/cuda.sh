#!/usr/bin/env bash
# A package for Linux machines with an NVIDIA GPU and no network: the program, the comparison with diffusers, and a starter that
# finds CUDA's run-time compiler. No weights: `prepose bench weights` makes them there.
#
#     scripts/package/cuda.sh [FILE.tar.xz]     (default: prepose-cuda-x86_64.tar.xz)
#
# Needs what building needs; neither CUDA nor a GPU. The other machine needs a libc at least as new as this one's.
set -euo pipefail
cd "$(dirname "$0")/../.."
file=$(realpath -m "${1:-prepose-cuda-$(uname -m).tar.xz}")
limit=$((60 * 1000 * 1000))

cargo build --release --locked --features cuda
target=$(cargo metadata --format-version 1 --no-deps | sed -E 's/.*"target_directory":"([^"]+)".*/\1/')

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
root=$scratch/prepose-cuda
mkdir -p "$root/bin" "$root/scripts"
cp "$target/release/prepose" "$root/bin/"
strip "$root/bin/prepose"
cp scripts/package/prepose.sh "$root/prepose"
cp scripts/package/README.txt LICENSE-APACHE LICENSE-MIT NOTICE.md "$root/"
cp -r scripts/bench "$root/scripts/"
find "$root" -name __pycache__ -prune -exec rm -r {} +

# What the loader must find on the other machine; CUDA's own libraries are opened only when they are used.
needed=$(objdump -p "$root/bin/prepose" | awk '/NEEDED/ {print $2}')
unexpected=$(grep -vE '^(libc|libm|libgcc_s|libdl|libpthread|ld-linux.*|libstdc\+\+)\.so' <<<"$needed" || true)
if [ -n "$unexpected" ]; then
    echo "the program needs libraries that another machine may lack: $unexpected" >&2
    exit 1
fi
libc=$(objdump -T "$root/bin/prepose" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)

tar -C "$scratch" --owner 0 --group 0 -cf - prepose-cuda | xz -T0 -6 >"$file"
size=$(stat -c %s "$file")
echo "$file: $size bytes; the other machine needs $libc or newer, a driver and NVRTC"
if [ "$size" -gt "$limit" ]; then
    echo "that is more than the $limit bytes allowed" >&2
    exit 1
fi
