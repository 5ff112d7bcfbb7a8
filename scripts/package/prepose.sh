#!/usr/bin/env bash
# Starts bin/prepose where CUDA's run-time compiler and its headers can be found: in an installed toolkit, or in the packages
# that pip installs with PyTorch. Set CUDA_PATH (a folder with include/cuda_fp16.h and lib or lib64 with libnvrtc) to choose.
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)

roots() {
    [ -n "$CUDA_PATH" ] && echo "$CUDA_PATH" && return
    printf '%s\n' /usr/local/cuda /opt/cuda
    for python in python3 python; do
        command -v "$python" >/dev/null || continue
        "$python" - <<'EOF' 2>/dev/null
import importlib.util
spec = importlib.util.find_spec("nvidia")
for folder in spec.submodule_search_locations if spec else []:
    # One folder for all of CUDA 13, one for each part of CUDA 12.
    print(folder + "/cu13", folder + "/cuda_runtime", sep="\n")
EOF
    done
}

headers= nvrtc=
while read -r root; do
    [ -z "$headers" ] && [ -f "$root/include/cuda_fp16.h" ] && headers=$root
    for folder in "$root/lib64" "$root/lib" "$root/../cuda_nvrtc/lib"; do
        # The library must be opened where it lies: from behind a link elsewhere it crashes.
        [ -z "$nvrtc" ] && ls "$folder"/libnvrtc.so* >/dev/null 2>&1 && nvrtc=$folder
    done
done < <(roots)

if [ -n "$headers" ]; then
    export CUDA_PATH=$headers
    # Products on tensor cores need it, and pip has it in a package that PyTorch does not bring.
    [ -f "$headers/include/crt/mma.h" ] || echo "warning: $headers/include/crt/mma.h is missing: pip install nvidia-cuda-crt" >&2
fi
[ -n "$nvrtc" ] && export LD_LIBRARY_PATH="$nvrtc${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
if [ "$1" = --where ]; then
    echo "headers: ${headers:-not found}"
    echo "NVRTC: ${nvrtc:-not found}"
    exit
fi
exec "$here/bin/prepose" "$@"
