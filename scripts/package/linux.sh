#!/usr/bin/env bash
# What Linux machines install: an archive with the program, its completions and manual pages, and a Debian package of the same;
# beside them their SHA-256. Both are the same to the byte when they are made again from the same program.
#
#     scripts/package/linux.sh [--program FILE] [FOLDER]
#
#     --program FILE   this program, instead of building one with the default features
#     FOLDER           where they go [dist]
#
# Needs what building needs, xz and dpkg-deb. The other machine needs a libc at least as new as this one's.
set -euo pipefail
cd "$(dirname "$0")/../.."

program=
if [ "${1:-}" = --program ]; then
    program=$(realpath "$2")
    shift 2
fi
out=$(realpath -m "${1:-dist}")
mkdir -p "$out"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}

if [ -z "$program" ]; then
    cargo build --release --locked --bin prepose
    target=$(cargo metadata --format-version 1 --no-deps | sed -E 's/.*"target_directory":"([^"]+)".*/\1/')
    program=$target/release/prepose
fi
version=$("$program" --version | cut -d' ' -f2)
machine=$(uname -m)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
name=prepose-v$version-$machine-unknown-linux-gnu
tree=$scratch/tree

# The same files below usr/ of the Debian package and in the archive.
install -Dm755 "$program" "$tree/bin/prepose"
strip "$tree/bin/prepose"
mkdir -p "$tree/share/bash-completion/completions" "$tree/share/zsh/site-functions" "$tree/share/fish/vendor_completions.d" "$tree/share/man/man1"
"$program" completions bash >"$tree/share/bash-completion/completions/prepose"
"$program" completions zsh >"$tree/share/zsh/site-functions/_prepose"
"$program" completions fish >"$tree/share/fish/vendor_completions.d/prepose.fish"
"$program" completions --man "$tree/share/man/man1"
gzip -9n "$tree"/share/man/man1/*
bash -n "$tree/share/bash-completion/completions/prepose"
find "$tree" -type d -exec chmod 755 {} +
find "$tree/share" -type f -exec chmod 644 {} +

# What the loader must find; CUDA's and Vulkan's own libraries are opened only when they are used.
needed=$(objdump -p "$tree/bin/prepose" | awk '/NEEDED/ {print $2}')
unexpected=$(grep -vE '^(libc|libm|libgcc_s|libdl|libpthread|ld-linux.*|libstdc\+\+)\.so' <<<"$needed" || true)
if [ -n "$unexpected" ]; then
    echo "the program needs libraries that another machine may lack: $unexpected" >&2
    exit 1
fi
libc=$(objdump -T "$tree/bin/prepose" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
libc=${libc#GLIBC_}

root=$scratch/$name
cp -r "$tree" "$root"
cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT NOTICE.md "$root/"
tar -C "$scratch" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$name" |
    xz -T1 -6 >"$out/$name.tar.xz"

architecture=$(dpkg --print-architecture)
package=$scratch/deb
mkdir -p "$package/DEBIAN" "$package/usr/share/doc/prepose"
cp -r "$tree/." "$package/usr/"
cp LICENSE-APACHE LICENSE-MIT NOTICE.md "$package/usr/share/doc/prepose/"
# Debian's zsh looks elsewhere.
mkdir -p "$package/usr/share/zsh/vendor-completions"
mv "$package/usr/share/zsh/site-functions/_prepose" "$package/usr/share/zsh/vendor-completions/_prepose"
rmdir "$package/usr/share/zsh/site-functions"
{
    echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
    echo
    echo "Files: *"
    echo "Copyright: the authors of prepose"
    echo "License: MIT or Apache-2.0"
    echo " LICENSE-MIT, LICENSE-APACHE and NOTICE.md lie beside this file."
} >"$package/usr/share/doc/prepose/copyright"
printf 'prepose (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- prepose <maintainers@prepose.invalid>  %s\n' \
    "$version" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$package/usr/share/doc/prepose/changelog.gz"
cat >"$package/DEBIAN/control" <<EOF
Package: prepose
Version: $version
Architecture: $architecture
Maintainer: prepose <maintainers@prepose.invalid>
Section: graphics
Priority: optional
Installed-Size: $(du -sk --apparent-size "$package/usr" | cut -f1)
Depends: libc6 (>= $libc), libgcc-s1
Description: Stable Diffusion that puts things where the prompt says
 A Stable Diffusion engine that follows relations in prompts by guidance and
 search, and measures by detectors and published rules whether they are
 there. A small checkpoint is built in. GPUs are used where their drivers are.
EOF
if grep -q libstdc <<<"$needed"; then
    sed -i 's/^Depends: .*/&, libstdc++6/' "$package/DEBIAN/control"
fi
(cd "$package" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$package" -type d -exec chmod 755 {} +
find "$package/DEBIAN" "$package/usr/share" -type f -exec chmod 644 {} +
find "$package" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$package" "$out/prepose_${version}_$architecture.deb" >/dev/null

cd "$out"
for file in "$name.tar.xz" "prepose_${version}_$architecture.deb"; do
    sha256sum "$file" >"$file.sha256"
    echo "$out/$file: $(stat -c %s "$file") bytes; needs glibc $libc or newer"
done
