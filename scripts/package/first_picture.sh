#!/usr/bin/env bash
# How long it takes from a package to the first picture: first_picture.sh ARCHIVE [WHEEL PYTHON].
#
# Unpacks the archive, or installs the wheel into a new environment of that Python, and makes a picture of 50 steps with it, three times
# each. Prints seconds on the clock and of the processor.
set -euo pipefail
[ $# -eq 1 ] || [ $# -eq 3 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
archive=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
TIMEFORMAT='%R %U %S'

from_archive() {
    tar -xJf "$archive" -C "$1"
    "$1"/prepose-*/bin/prepose generate "a dog to the left of a cat" --steps 50 --quiet --out "$1/picture.png" >/dev/null
}
from_wheel() {
    "$2" -m venv "$1/venv"
    "$1/venv/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps "$3"
    "$1/venv/bin/prepose" generate "a dog to the left of a cat" --steps 50 --quiet --out "$1/picture.png" >/dev/null
}
measured() {
    local name=$1 number
    shift
    for number in 1 2 3; do
        mkdir "$scratch/$name-$number"
        { time "$@" "$scratch/$name-$number" "${more[@]}" >&2; } 2>"$scratch/time" || { cat "$scratch/time" >&2; exit 1; }
        [ -s "$scratch/$name-$number/picture.png" ]
        tail -n 1 "$scratch/time" | awk -v name="$name" '{ printf "%s: %.1f s on the clock, %.1f of the processor\n", name, $1, $2 + $3 }'
    done
}

more=()
measured archive from_archive
if [ $# -eq 3 ]; then
    more=("$3" "$(realpath "$2")")
    measured wheel from_wheel
fi
