"""What the tests share: one engine, a picture that it has made, and the command line."""

import json
import subprocess
import sys
from pathlib import Path

import prepose
import pytest

PROMPT = "a photo of a dog to the left of a cat."


@pytest.fixture(scope="session")
def engine():
    return prepose.Engine(device="flex")


@pytest.fixture(scope="session")
def checker():
    return prepose.Checker(device="flex")


@pytest.fixture(scope="session")
def guided(engine):
    """A guided picture with its attention maps."""
    return engine.generate(PROMPT, seed=9, steps=4, guide="pos", attention_maps=True)[0]


@pytest.fixture(scope="session")
def command():
    """Runs the command line in the package; its standard output."""

    def run(*words, code=0):
        done = subprocess.run([sys.executable, "-m", "prepose", *map(str, words)], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout

    return run


@pytest.fixture
def lines():
    """JSON lines of a text or a file."""

    def read(source):
        text = source.read_text() if isinstance(source, Path) else source
        return [json.loads(line) for line in text.splitlines() if line.strip()]

    return read
