"""`prepose parse --extract-with` against llama.cpp's real server: `python check.py PREPOSE`.

Needs `pip install xllamacpp gguf numpy`. The model has random weights (tiny_model.py), so its answers are noise unless a
grammar binds them to the format; both are tried, and a wrong key and a prompt that is longer than the context.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import tiny_model

KEY = "sk-test"
PROMPT = "a dog, a cat and a red car"
GRAMMAR = """root ::= "(" pair ", " relation ")"
pair ::= "dog, cat" | "cat, red car" | "car, dog"
relation ::= "left" | "right" | "top" | "bottom" | "behind" | "in front"
"""


@contextlib.contextmanager
def serving(model, grammar=""):
    """The address of a running server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(Path(__file__).with_name("server.py")), str(model), str(port), KEY, grammar]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        while "listening" not in (line := server.stdout.readline()):
            if not line:
                raise SystemExit("the server did not start")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait()


def parse(prepose, url, prompt=PROMPT, key=KEY):
    """Exit code, the JSON on standard output, and the warnings."""
    command = [prepose, "parse", prompt, "--json", "--extract-with", url, "--extract-model", "random"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PREPOSE_EXTRACT_KEY": key})
    return done.returncode, json.loads(done.stdout), done.stderr.strip()


def main(prepose):
    def check(what, true, seen):
        print(f"{'ok  ' if true else 'FAIL'} {what}: {seen}")
        failed.append(what) if not true else None

    failed = []
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "random.gguf")
        tiny_model.write(model)
        with serving(model, GRAMMAR) as url:
            code, read, warnings = parse(prepose, url)
            relations = [relation["text"] for relation in read.get("relations", [])]
            check("an answer in the format is taken", code == 0 and len(relations) == 1 and not warnings, relations)
        with serving(model) as url:
            code, read, warnings = parse(prepose, url)
            check("noise is refused and the rules step in", code == 0 and not read["relations"] and "format" in warnings, warnings[:150])
            code, read, warnings = parse(prepose, url, key="wrong")
            check("a wrong key", code == 0 and "401" in warnings, warnings[:150])
            long = "a dog left of a cat, " * 300
            code, read, warnings = parse(prepose, url, prompt=long.strip(", "))
            check("longer than the context", "400" in warnings, warnings[:150])
        code, read, warnings = parse(prepose, url)
        check("the server is gone", code == 0 and "no answer" in warnings, warnings[:150])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
