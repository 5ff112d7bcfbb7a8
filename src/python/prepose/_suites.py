"""Sets of prompts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Union, overload

from prepose import _prepose


class Suite(Sequence[dict[str, Any]]):
    """A set of prompts, in order. Each is a dictionary: prompt_id, prompt, objects, relations (with indices into objects), and
    whatever else its authors say.

    Attributes:
        name: its name on the command line.
        version: the version of the set.
        pictures_per_prompt: how many pictures its authors make for each prompt.
    """

    def __init__(self, name: str, version: str, pictures_per_prompt: int, prompts: list[dict[str, Any]]) -> None:
        self.name = name
        self.version = version
        self.pictures_per_prompt = pictures_per_prompt
        self._prompts = prompts

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: Union[int, slice]) -> Any:
        return self._prompts[index]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._prompts)

    def __len__(self) -> int:
        return len(self._prompts)

    def __repr__(self) -> str:
        return f"<Suite {self.name!r} {self.version}: {len(self)} prompts>"


def suites() -> list[dict[str, Any]]:
    """The built-in sets: name, version, about, prompts (how many), pictures_per_prompt, relations, source, licence."""
    return _prepose.all_suites()


def suite(name_or_path: Union[str, os.PathLike[str]]) -> Suite:
    """The set of this name, or the prompts in a file (.jsonl, .csv, .txt).

    Raises:
        RunError: there is neither, or the file is not such a file.
    """
    return Suite(*_prepose.open_suite(name_or_path))
