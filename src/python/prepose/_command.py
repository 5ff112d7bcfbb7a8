"""The command line from Python, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Union

from prepose._errors import CommandError


def command(*arguments: Union[str, os.PathLike[str]], check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs a command of the command line: `prepose.command("run", "geneval-position", "--out", "runs/a")`.

    It runs in a process of its own, with this Python, so that it can be stopped. What it prints is in `stdout` and `stderr`.

    Raises:
        CommandError: it ended with an error (exit code 2 or more), unless `check` is False.
    """
    words = [os.fspath(word) for word in arguments]
    done = subprocess.run([sys.executable, "-m", "prepose", *words], capture_output=True, text=True, check=False)
    if check and done.returncode not in (0, 1):
        said = done.stderr.strip().rsplit("error: ", 1)[-1] or f"prepose {words[0] if words else ''} ended with {done.returncode}"
        raise CommandError(said, done.returncode)
    return done
