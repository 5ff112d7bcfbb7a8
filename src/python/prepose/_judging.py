"""Questions about pictures to vision-language models, or to a detector in their place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional, Union

from prepose import _prepose
from prepose._errors import JudgeError, PictureError
from prepose._prepose import Picture, Request

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from prepose._options import JudgeOptions


@dataclass(frozen=True)
class Judged:
    """The answers about pictures.

    Attributes:
        lines: for each picture, what was asked and answered: objects and relations (True, False, or None where the answer was
            invalid), sgscore, and OTS-Bench's figure and code where the prompt is of its kind.
        notes: what a reader should know.
        questions, new, unanswered: how many there were, how many of them were not in the book of answers, and how many have no
            valid answer.
        prompt_tokens, answer_tokens: the tokens that the model read and wrote.
    """

    lines: list[dict[str, Any]]
    notes: list[str] = field(repr=False)
    questions: int
    new: int
    unanswered: int
    prompt_tokens: int
    answer_tokens: int


class Judge:
    """Answers questions about pictures as OTS-Bench and Scene-Bench ask them.

    Args:
        judge: the address of an OpenAI-compatible server, such as "http://localhost:8000/v1", with `judge_model`; or
            "oracle", which answers from a detector and geometry, offline.
        options: those of `prepose score judge` and `check --judge`: judge_model, judge_key, judge_asks ("ots", "scene", "all"),
            judge_rounds, dialect, temperature, max_tokens, concurrency, …; checker and device for the oracle; out, a folder in
            which answers are kept, so that nothing is asked twice.

    After a fork the oracle cannot be asked.

    Raises:
        OptionError: options that make no sense together.
    """

    def __init__(self, judge: str = "oracle", **options: Unpack[JudgeOptions]) -> None:
        self._native = _prepose.Judge(judge, **options)

    @property
    def name(self) -> str:
        """The model's name, or "oracle"."""
        return self._native.name

    def ask(self, pictures: Any, *, prompt: Union[str, Sequence[str], None] = None) -> Judged:
        """Asks whether each picture shows what its prompt says. Ctrl-C stops it.

        Args:
            pictures: one or a list: a `Picture`, a path, a file's bytes, `PIL.Image.Image`, or an array, uint8 [height, width, 3].
            prompt: one for all or one for each, unless the pictures carry their own. They are asked about by what that is at the
                last step, and by the relations that were given beside it.

        Raises:
            JudgeError: the server cannot be asked, or there is nothing to ask.
            PictureError: something is not a picture, or has no prompt.
            OptionError: a prompt that cannot be read.
        """
        given = [pictures] if _is_one(pictures) else list(pictures)
        prompts: list[Optional[str]] = [prompt] * len(given) if prompt is None or isinstance(prompt, str) else list(prompt)
        if len(prompts) != len(given):
            raise JudgeError(f"there are {len(given)} pictures and {len(prompts)} prompts; give one for all, or one for each")
        with tempfile.TemporaryDirectory() as folder:
            asked = [_file(number, one, own, folder) for number, (one, own) in enumerate(zip(given, prompts))]
            return Judged(**self._native._ask(asked))

    def __repr__(self) -> str:
        return repr(self._native)


def _is_one(pictures: Any) -> bool:
    is_one = isinstance(pictures, (str, bytes, os.PathLike, Picture))
    return is_one or any(hasattr(pictures, name) for name in ("getbands", "__array_interface__", "__array__"))


def _request(picture: Any) -> Optional[Request]:
    """What made a picture, where it can say so."""
    if isinstance(picture, Picture):
        return picture.request
    if isinstance(picture, bytes):
        return Request._from_png_bytes(picture)
    return Request.from_png(picture) if isinstance(picture, (str, os.PathLike)) else None


def _file(number: int, picture: Any, prompt: Optional[str], folder: str) -> tuple[str, str, str, list[str]]:
    """A picture's id, its file, its prompt, and the relations instead of what that states."""
    path: Optional[str] = os.fspath(picture) if isinstance(picture, (str, os.PathLike)) else None
    relations: list[str] = []
    if prompt is None:
        request = _request(picture)
        if request is None:
            raise PictureError(f"picture {number} does not say what it should show; say it with prompt")
        prompt, relations = request._final_prompt, request._relations
    if path is None:
        path = os.path.join(folder, f"{number}.png")
        with open(path, "wb") as file:
            file.write(_prepose.png_of(picture))
    return str(number), path, prompt, relations
