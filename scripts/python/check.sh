#!/usr/bin/env bash
# The Python package: builds the wheel for the CPU, and tests it on the oldest and the newest Python that is here, outside of the
# repository: pictures, maps and verdicts against the command line, errors, callbacks, Ctrl-C, notebooks, every block of
# docs/python.md, types, and how long it takes to import.
#
#     scripts/python/check.sh [--quick] [--wheel FILE] [--torch PYTHON]
#
#     --quick          one Python, without the notebooks
#     --wheel FILE     this wheel, instead of building one
#     --torch PYTHON   a Python that has torch, diffusers and transformers, for the tests of pipelines
#
# Needs Rust, a C compiler, and pip's index. CARGO names another cargo.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD

quick="" wheel="" torch=""
while [ $# -gt 0 ]; do
    case $1 in
        --quick) quick=1 ;;
        --wheel) wheel=$(realpath "$2") && shift ;;
        --torch) torch=$2 && shift ;;
        *) sed -n '2,14s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    esac
    shift
done

# CPython from 3.9 on, each version once, the oldest first; abi3 is not for free-threaded ones.
pythons() {
    local python
    for python in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 $(compgen -c python3 | grep -xE "python3(\.[0-9]+)?" | sort -u); do
        "$python" - <<'EOF' 2>/dev/null || true
import sys, sysconfig
if sys.version_info >= (3, 9) and sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED"):
    import ensurepip, venv
    print(sys.version_info[1], sys.executable)
EOF
    done | grep -E '^[0-9]+ /' | sort -n -s -k1,1 -u
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mapfile -t found < <(pythons | cut -d' ' -f2)
[ ${#found[@]} -gt 0 ] || { echo "there is no CPython from 3.9 on with venv here" >&2 && exit 1; }
chosen=("${found[-1]}")
[ -n "$quick" ] || [ ${#found[@]} -eq 1 ] || chosen=("${found[0]}" "${found[-1]}")

if [ -z "$wheel" ]; then
    maturin=$(command -v maturin || true)
    if [ -z "$maturin" ]; then
        "${found[-1]}" -m venv "$scratch/tools"
        "$scratch/tools/bin/pip" install -q 'maturin>=1.9.4,<2'
        maturin=$scratch/tools/bin/maturin
    fi
    "$maturin" build --release --locked --no-default-features --features toybox,object-store --out "$scratch/wheels"
    wheel=$(ls "$scratch"/wheels/*.whl)
fi
echo "=== $(basename "$wheel"): $(stat -c %s "$wheel") bytes"

# What the tests need, by the list in pyproject.toml; old pips do not know --group.
needs=$(sed -n 's/^test = \[\(.*\)\]$/\1/p' pyproject.toml | tr -d '",')

for python in "${chosen[@]}"; do
    version=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')
    echo "=== CPython $version"
    "$python" -m venv "$scratch/$version"
    bin=$scratch/$version/bin
    # shellcheck disable=SC2086
    "$bin/pip" install -q --disable-pip-version-check "$wheel" $needs
    mkdir -p "$scratch/elsewhere"
    (cd "$scratch/elsewhere" && "$bin/python" -m pytest -q -p no:cacheprovider --rootdir "$root" -c "$root/pyproject.toml" \
        "$root/src/python/tests" -rs ${quick:+--ignore="$root/src/python/tests/test_notebooks.py"})
    "$bin/python" - <<'EOF'
import statistics, subprocess, sys, time

def seconds(program):
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    return time.perf_counter() - began

took = sorted(seconds("import prepose") - seconds("pass") for _ in range(15))
print(f"importing: median {1000 * statistics.median(took):.0f} ms, worst of 15 {1000 * took[-1]:.0f} ms")
sys.exit(statistics.median(took) > 0.3)
EOF
done

echo "=== types"
"$bin/pip" install -q --disable-pip-version-check mypy typing_extensions pandas-stubs types-Pillow 2>/dev/null ||
    "$bin/pip" install -q --disable-pip-version-check mypy typing_extensions
(cd "$scratch/elsewhere" && "$bin/mypy" --strict --python-version 3.10 -p prepose)
(cd "$scratch/elsewhere" && "$bin/python" -m mypy.stubtest prepose._prepose)

if [ -n "$torch" ]; then
    echo "=== pipelines"
    "$torch" -m venv --system-site-packages "$scratch/torch"
    # A virtual environment's own packages are not a system's.
    "$torch" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
        >"$("$scratch/torch/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
    "$scratch/torch/bin/pip" install -q --disable-pip-version-check --no-deps "$wheel"
    "$scratch/torch/bin/pip" install -q --disable-pip-version-check pytest
    (cd "$scratch/elsewhere" && "$scratch/torch/bin/python" -m pytest -q -p no:cacheprovider --rootdir "$root" -c "$root/pyproject.toml" \
        "$root/src/python/tests/test_pipeline.py")
fi
echo "=== done"
