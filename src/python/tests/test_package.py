"""The package itself: how long it takes to import, its types, its command."""

import re
import statistics
import subprocess
import sys
import time
import typing
from pathlib import Path

import prepose
import pytest
from prepose import _options, _prepose

#: Options with their types, and what takes them.
TYPED = {
    "Engine": _options.EngineOptions,
    "generate": _options.GenerateOptions,
    "Checker": _options.CheckerOptions,
    "Judge": _options.JudgeOptions,
    "parse": _options.ParseOptions,
    "score": _options.ScoreOptions,
}


@pytest.mark.parametrize("what", TYPED)
def test_options_are_those_of_the_command_line(what):
    known = set(_prepose.options()[what])
    # They have places of their own.
    known -= {"Engine": {"checkpoint"}, "Checker": {"checker"}, "Judge": {"judge"}}.get(what, set())
    assert set(typing.get_type_hints(TYPED[what])) == known


def test_importing_takes_no_time_and_no_others():
    program = "import sys, prepose; print([name for name in ('numpy', 'PIL', 'pandas', 'polars', 'torch') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

    def seconds(program):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        return time.perf_counter() - began

    took = statistics.median(seconds("import prepose") - seconds("pass") for _ in range(7))
    print(f"importing takes {1000 * took:.0f} ms")


def test_everything_has_a_text():
    for name in prepose.__all__:
        thing = getattr(prepose, name)
        assert thing.__doc__, name
        for member in vars(thing).values() if isinstance(thing, type) else ():
            if callable(member) and not getattr(member, "__name__", "_").startswith("_") and hasattr(member, "__module__"):
                assert member.__doc__, member


def test_types_are_in_the_package():
    folder = Path(prepose.__file__).parent
    assert (folder / "py.typed").is_file() and (folder / "_prepose.pyi").is_file()
    # Everything that the module has is typed.
    typed = (folder / "_prepose.pyi").read_text()
    for name in dir(_prepose):
        if not name.startswith("__"):
            assert re.search(rf"^(class|def) {name}\b", typed, re.MULTILINE), name


def test_the_command(command):
    assert command("--version").split() == ["prepose", prepose.__version__]
    assert "Usage: prepose" in command("--help")
    script = Path(sys.executable).with_name("prepose")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["prepose", prepose.__version__]
    # Exit codes and messages are the command line's.
    done = subprocess.run([script, "generate"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "required arguments" in done.stderr
    assert prepose.command("parse", "a dog").returncode == 0


def test_devices():
    assert ("flex", None) in [(name, problem) for name, _, problem in prepose.devices()]
