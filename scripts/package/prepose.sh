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
        # The newest, if there are several.
        found=$(ls -v "$folder"/libnvrtc.so* 2>/dev/null | tail -1)
        [ -z "$nvrtc" ] && [ -n "$found" ] && nvrtc=$(realpath "$found")
    done
done < <(roots)

[ -n "$headers" ] && export CUDA_PATH=$headers
if [ -n "$nvrtc" ]; then
    # Packages of pip have no libnvrtc.so without a version, which the program asks for first.
    links=${XDG_CACHE_HOME:-$HOME/.cache}/prepose/nvrtc
    mkdir -p "$links" && ln -sf "$nvrtc" "$links/libnvrtc.so"
    export LD_LIBRARY_PATH="$links:$(dirname "$nvrtc")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
if [ "$1" = --where ]; then
    echo "headers: ${headers:-not found}"
    echo "NVRTC: ${nvrtc:-not found}"
    exit
fi
exec "$here/bin/prepose" "$@"
