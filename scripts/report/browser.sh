#!/usr/bin/env bash
# Makes a report of 10,000 pictures and uses its page in headless Chromium: browser.sh [SHOTS]. See README.md.
#
# PREPOSE names the program, CHROMIUM the browser, WORK a folder to keep what is made in (by default a temporary one).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
shots=$(realpath -m "${1:-shots}")
prepose=$(realpath "${PREPOSE:-$here/../../target/release/prepose}")
chromium=${CHROMIUM:-/usr/bin/chromium}

if [ ! -x "$chromium" ]; then
    echo "no Chromium at $chromium; CHROMIUM names one (on Debian: apt-get install --no-install-recommends chromium fonts-dejavu-core)" >&2
    exit 2
fi
if [ -n "${WORK:-}" ]; then
    work=$(realpath -m "$WORK")
    mkdir -p "$work"
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
cd "$work"
[ -d node_modules/playwright-core ] || npm install --silent --no-fund --no-audit playwright-core
# A space and signs that mean something in addresses, on purpose.
run="$work/a run #1 50%"
[ -d "$run" ] || node "$here/make_run.mjs" "$run"
"$prepose" report "$run" >/dev/null
node "$here/browser.mjs" "$run/report/report.html" "$shots" "$chromium"
