# Chores. `just` lists them; https://just.systems

cpu := "--release --no-default-features --features toybox,object-store"

[private]
default:
    @just --list --unsorted

# Everything a change must pass: formatting, tests of the default features, lints, docs, software Vulkan
ci:
    .ci/run

# The README's test command: everything, with the GPU backends
test:
    cargo test --release --workspace

# All tests without GPU backends, or those whose names contain FILTER
test-fast FILTER="":
    cargo test {{ cpu }} --workspace -- {{ FILTER }}

# Clippy without GPU backends, and the scripts
lint:
    cargo fmt --all --check
    cargo clippy {{ cpu }} --workspace --all-targets -- -D warnings
    ruff check scripts src/python
    typos

# Licences, sources and advisories of the dependencies
deny:
    cargo deny check

# The pages as a book: book/index.html
docs:
    mdbook build docs

# The documentation of the code
doc:
    cargo doc {{ cpu }} --workspace --no-deps --open

# Make fixtures again with PyTorch: all, or the cases named
fixtures *CASES:
    python scripts/reference/make.py {{ CASES }}

# A benchmark sheet of this machine, to benches/results
sheet *OPTIONS:
    cargo run --release -- bench sheet --out benches/results {{ OPTIONS }}

# The same in turn with diffusers
compare *OPTIONS:
    scripts/bench/compare.sh {{ OPTIONS }}

# Train the toybox from nothing (hours)
toybox OUT:
    python scripts/toybox/build.py --out {{ OUT }}

# Kernels on software Vulkan, or those of one PART
vulkan *PART:
    scripts/gpu/software-vulkan.sh {{ PART }}

# The Python package: its wheel, tested on the oldest and the newest Python
python *OPTIONS:
    scripts/python/check.sh {{ OPTIONS }}

# An archive and a Debian package for Linux
linux *OPTIONS:
    scripts/package/linux.sh {{ OPTIONS }}

# The archive for machines with CUDA and no network
package:
    scripts/package/cuda.sh
