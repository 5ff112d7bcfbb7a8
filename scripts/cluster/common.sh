# What the tests in this folder share.

# Installs Debian packages that are missing.
need_packages() {
    dpkg -s "$@" > /dev/null 2>&1 && return
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "$@" > /dev/null
}

# A Python that has some packages of PyPI; they are kept for the next time.
python_with() {
    local folder=${XDG_CACHE_HOME:-$HOME/.cache}/prepose-tests/$1
    if [ ! -x "$folder/bin/python" ] || ! "$folder/bin/pip" show -q "$1" 2> /dev/null; then
        python3 -m venv "$folder" > /dev/null 2>&1 || { need_packages python3-venv; python3 -m venv "$folder"; }
        "$folder/bin/pip" install -q "$1" >&2
    fi
    echo "$folder/bin/python"
}

flags=(--release --no-default-features --features toybox,object-store -p prepose)

# PREPOSE, built unless it is given: the smallest program that has what is needed.
need_prepose() {
    if [ -z "${PREPOSE:-}" ]; then
        PREPOSE=$(cargo build -q "${flags[@]}" --bin prepose --message-format json | executable prepose)
    fi
    PREPOSE=$(realpath "$PREPOSE")
    export PREPOSE
}

# TEST_STORE, the tests of stores, likewise.
need_test_store() {
    if [ -z "${TEST_STORE:-}" ]; then
        TEST_STORE=$(cargo test -q "${flags[@]}" --test lib --no-run --message-format json | executable lib)
    fi
    TEST_STORE=$(realpath "$TEST_STORE")
}

# The program of a name among the messages of cargo.
executable() {
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["target"]["name"] == sys.argv[1]: print(message["executable"])' "$1"
}

# A port that nobody has, with a hundred above it.
free_port() {
    python3 -c '
import random, socket
while True:
    port = random.randrange(20000, 30000, 100)
    with socket.socket() as s:
        if s.connect_ex(("127.0.0.1", port)): print(port); break'
}

# Whether two runs hold the same but for when, where and how fast they were made.
same_runs() {
    python3 "$(dirname "${BASH_SOURCE[0]}")/same-runs.py" "$1" "$2"
}
