#!/usr/bin/env bash
# Runs the kernels' tests on a GPU that every machine has: Mesa's software Vulkan (llvmpipe).
#
#   scripts/gpu/software-vulkan.sh              install what is missing, then run the tests
#   scripts/gpu/software-vulkan.sh --setup      only install
#   scripts/gpu/software-vulkan.sh norm         only those of one part: activation, attention, detection, norm ...
#   scripts/gpu/software-vulkan.sh --checks     without fusion, and wherever Burn chooses between kernels all of them must agree;
#                                               builds Burn once more
#
# Installing is for Debian 12 and its derivatives, as root: Mesa 25 from bookworm-backports, because
# the 22.3 of bookworm itself crashes on some shaders. Elsewhere the system's own Mesa is used.
set -euo pipefail
cd "$(dirname "$0")/../.."

installed() {
    compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' >/dev/null &&
        { ldconfig -p | grep 'libvulkan\.so\.1' >/dev/null; }
}

install_mesa() {
    . /etc/os-release
    if [ "${VERSION_CODENAME:-}" != bookworm ]; then
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends mesa-vulkan-drivers libvulkan1
        return
    fi
    # From the mirror that the rest of the system comes from.
    local mirror
    mirror=$( (cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null || true) |
        sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb .*(https?:[^ ]+).*/\1/p' | head -n 1)
    cat >/etc/apt/sources.list.d/backports.sources <<SOURCES
Types: deb
URIs: $mirror
Suites: bookworm-backports
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends -t bookworm-backports \
        mesa-vulkan-drivers libvulkan1
}

installed || install_mesa
[ "${1:-}" = --setup ] && exit 0

# The features of the README's test command, so that nothing is built twice.
features=()
if [ "${1:-}" = --checks ]; then
    features=(--no-default-features --features autotune-checks,toybox,wgpu)
    shift
fi

if [ -z "${XDG_RUNTIME_DIR:-}" ]; then
    XDG_RUNTIME_DIR=$(mktemp -d)
    trap 'rm -rf "$XDG_RUNTIME_DIR"' EXIT
    export XDG_RUNTIME_DIR
fi
driver=$(compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' | head -n 1)
export VK_DRIVER_FILES=$driver VK_ICD_FILENAMES=$driver

# These tests need a device, and are ignored where nobody asks for them.
export PREPOSE_TEST_DEVICE=wgpu
cargo test --release --locked --workspace "${features[@]}" --lib -- "tests::gpu::${1:-}" --include-ignored --test-threads 1
