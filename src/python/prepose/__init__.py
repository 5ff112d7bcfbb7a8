"""Stable Diffusion that puts things where the prompt says, and measures whether they are there.

>>> import prepose
>>> engine = prepose.Engine()  # the built-in toybox; or checkpoint="path/to/your/model.safetensors"
>>> picture = engine.generate("a dog to the left of a cat", seed=9, guide="pos")[0]
>>> picture.array  # numpy, uint8 [height, width, 3]
>>> prepose.Checker().check(picture)[0].verdict

Options have the same names and meanings as on the command line: `--guide-steps 5` is `guide_steps=5`. Nothing that takes time
is imported before it is used: numpy, PIL, pandas, polars and torch are all optional.
"""

from __future__ import annotations

from prepose import _prepose
from prepose._checking import Check, Checker, Detection, decide
from prepose._command import command
from prepose._engine import Engine, Pictures
from prepose._errors import (
    CheckError,
    CheckpointError,
    CommandError,
    DeviceError,
    EngineError,
    JudgeError,
    OptionError,
    OutOfMemoryError,
    PictureError,
    PreposeError,
    RunError,
)
from prepose._judging import Judge, Judged
from prepose._prepose import AttentionMaps, Picture, Request, Step, devices
from prepose._rules import Score, parse, rules, score
from prepose._runs import Run, read_run
from prepose._suites import Suite, suite, suites

__version__: str = _prepose.__version__

__all__ = [
    "AttentionMaps",
    "Check",
    "CheckError",
    "Checker",
    "CheckpointError",
    "CommandError",
    "Detection",
    "DeviceError",
    "Engine",
    "EngineError",
    "Judge",
    "JudgeError",
    "Judged",
    "OptionError",
    "OutOfMemoryError",
    "Picture",
    "PictureError",
    "Pictures",
    "PreposeError",
    "Request",
    "Run",
    "RunError",
    "Score",
    "Step",
    "Suite",
    "command",
    "decide",
    "devices",
    "parse",
    "read_run",
    "rules",
    "score",
    "suite",
    "suites",
]
