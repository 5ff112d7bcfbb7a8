"""Runs of `prepose run`, and their results."""

from __future__ import annotations

import importlib
import os
from typing import Any, Optional, Union

from prepose import _prepose
from prepose._errors import OptionError

Path = Union[str, "os.PathLike[str]"]


class Run:
    """The results of one or several runs.

    Attributes:
        notes: what a reader has to know before comparing the methods: what is not finished, too.

    `pictures`, `records` and `table` return data frames of pandas if that is installed, else of polars, else a list of
    dictionaries. `frame="pandas"`, `"polars"` or `"dicts"` chooses between them.
    """

    def __init__(self, read: dict[str, Any]) -> None:
        self._read = read
        self.notes: list[str] = read["notes"]

    def pictures(self, frame: Optional[str] = None) -> Any:
        """A row for each picture: method, sample_id, prompt_id, prompt, seed, verdict, confidence, reason, width, height, path,
        and what `scores.jsonl` says: what it cost (unet_calls, guided_calls, candidates, seconds) and what rules say."""
        return _frame(self._read["pictures"], frame)

    def records(self, frame: Optional[str] = None) -> Any:
        """A row for each of the checker's records, as `per_sample.jsonl` has it, with its method."""
        return _frame(self._read["records"], frame)

    @property
    def tables(self) -> dict[str, str]:
        """The report's tables by name, with their titles."""
        return {table["name"]: table["title"] for table in self._read["tables"]}

    def table(self, name: str, frame: Optional[str] = None) -> Any:
        """A table of the report: shares are numbers from 0 to 1."""
        for table in self._read["tables"]:
            if table["name"] == name:
                return _frame([dict(zip(table["columns"], row)) for row in table["rows"]], frame)
        raise OptionError(f"there is no table {name!r}; there are {', '.join(self.tables)}")

    def __repr__(self) -> str:
        methods = {row["method"]: None for row in self._read["pictures"]}
        return f"<Run: {len(self._read['pictures'])} pictures by {', '.join(methods)}>"


def read_run(*locations: Path, eval: Optional[str] = None, bootstrap: Optional[int] = None, seed: Optional[int] = None) -> Run:
    """Reads runs, finished or not, from folders and object stores; shards of one run are joined.

    Args:
        locations: what `prepose run --out` was given, or folders of single methods.
        eval: which folder of the checker's records to use, where methods have several.
        bootstrap, seed: how often prompts are resampled for confidence intervals, and the seed for that.

    Raises:
        RunError: something is missing, is damaged or broken, or is there twice.
    """
    return Run(_prepose.read_runs([os.fspath(one) for one in locations], eval, bootstrap, seed))


def _frame(rows: list[dict[str, Any]], kind: Optional[str]) -> Any:
    if kind not in (None, "pandas", "polars", "dicts"):
        raise OptionError(f"frame is {kind!r}; there are 'pandas', 'polars' and 'dicts'")
    for library in ("pandas", "polars"):
        if kind not in (None, library):
            continue
        try:
            # Neither is needed, and types of neither are.
            frames: Any = importlib.import_module(library)
        except ImportError:
            if kind:
                raise
            continue
        return frames.DataFrame(rows) if library == "pandas" else frames.DataFrame(rows, infer_schema_length=None)
    return rows
