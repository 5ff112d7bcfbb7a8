#!/usr/bin/env bash
# Starts `prepose serve` with the toybox and uses its page in headless Chromium: browser.sh [SHOTS]. See README.md.
#
# PREPOSE names the program, CHROMIUM the browser, PAGE a folder to read the page from in place of the program's own, and WORK a folder to
# keep what is made in (by default a temporary one).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
shots=$(realpath -m "${1:-shots}")
PREPOSE=$(realpath "${PREPOSE:-$here/../../target/release/prepose}")
CHROMIUM=${CHROMIUM:-/usr/bin/chromium}
export PREPOSE CHROMIUM

if [ ! -x "$CHROMIUM" ]; then
    echo "no Chromium at $CHROMIUM; CHROMIUM names one (on Debian: apt-get install --no-install-recommends chromium fonts-dejavu-core)" >&2
    exit 2
fi
if [ -n "${WORK:-}" ]; then
    work=$(realpath -m "$WORK")
    mkdir -p "$work"
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
[ -z "${PAGE:-}" ] || PAGE=$(realpath "$PAGE")
export PAGE
cd "$work"
[ -d node_modules/axe-core ] || npm install --silent --no-fund --no-audit playwright-core axe-core
node "$here/browser/main.mjs" "$work" "$shots"
