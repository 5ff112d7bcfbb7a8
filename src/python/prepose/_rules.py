"""Prompts as they are read, and the published rules: no network, no engine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Union

from prepose import _prepose
from prepose._errors import CheckError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from prepose._options import ParseOptions, ScoreOptions

Path = Union[str, "os.PathLike[str]"]


def parse(prompt: str, **options: Unpack[ParseOptions]) -> dict[str, Any]:
    """What is read from a prompt, as `prepose parse --json` has it: objects, relations, unread parts, neutral and swapped
    forms, and the segments of a prompt schedule.

    Options are those of `prepose parse`: relation, checkpoint, tokens, steps, extract_with, extract_model.
    """
    return _prepose.parse_prompt(prompt, **options)


def rules() -> dict[str, str]:
    """The published rules by name, with a line about each."""
    return dict(_prepose.rules())


@dataclass(frozen=True)
class Score:
    """What a rule says about pictures.

    Attributes:
        rule: its name.
        figures: what the rule publishes, by name; None where there was nothing to divide by.
        pictures: for each picture, its id with score (0 to 1, None if it does not count), missing and note, or error.
        unread: what could not be read, with place and error.
    """

    rule: str
    figures: dict[str, Optional[float]]
    pictures: list[dict[str, Any]]
    unread: list[dict[str, Any]]


def score(rule: str, detections: Union[Path, Iterable[Any]], **options: Unpack[ScoreOptions]) -> Score:
    """Scores detections by a published rule.

    Args:
        rule: one of `rules()`.
        detections: files of JSON lines as `prepose score` reads them, or pictures as dictionaries of that form: id, prompt (or
            objects and relation), width, height, detections with label, score and box_xyxy; the checker's records as well.
        options: those of `prepose score`: published, min_score, size, metadata, masks, depth.

    After a fork, neither masks nor depth can be used if networks were opened before.

    Raises:
        CheckError: no picture could be read.
        OptionError: no such rule, or an option that makes no sense.
    """
    if isinstance(detections, Mapping):
        detections = [detections]
    if isinstance(detections, (str, os.PathLike)):
        detections = [detections]
    texts: list[tuple[str, str]] = []
    lines: list[str] = []
    for one in detections:
        if isinstance(one, (str, os.PathLike)):
            texts.append((os.fspath(one), _read(one)))
        else:
            lines.append(json.dumps(one, default=_plain))
    if lines:
        texts.append(("detections", "\n".join(lines)))
    said = _prepose.score_texts(rule, texts, **options)
    if not said["pictures"]:
        why = "".join(f": {one['place']}: {one['error']}" for one in said["unread"][:1])
        raise CheckError(f"there is no picture in these detections{why}")
    return Score(said["rule"], said["figures"], said["pictures"], said["unread"])


def _read(path: Path) -> str:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise CheckError(f"cannot read {os.fspath(path)}: {error}") from error


def _plain(value: Any) -> Any:
    """Detections and numpy's numbers as JSON has them."""
    for name in ("to_dict", "tolist"):
        if hasattr(value, name):
            return getattr(value, name)()
    raise TypeError(f"a {type(value).__name__} is nothing that detections are made of")
