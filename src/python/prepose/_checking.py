"""Whether pictures show what was asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional, Union

from prepose import _prepose
from prepose._errors import CheckError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from prepose._options import CheckerOptions

Path = Union[str, "os.PathLike[str]"]
Relation = Union[str, Sequence[Any]]


@dataclass(frozen=True)
class Detection:
    """Something that a detector has found.

    Attributes:
        label: what it is, in the detector's words.
        score: how sure the detector is, from 0 to 1.
        box: its left, upper, right and lower edge in pixels.
        segmentation: the pixels that it covers, in COCO's run-length encoding, from detectors that give them.
    """

    label: str
    score: float
    box: tuple[float, float, float, float]
    segmentation: Optional[dict[str, Any]] = field(default=None, repr=False)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Detection:
        """Makes one from a detection in the form that records have."""
        return cls(fields["label"], fields["score"], tuple(fields["box_xyxy"]), fields.get("segmentation"))

    def to_dict(self) -> dict[str, Any]:
        """In the form that records have."""
        fields: dict[str, Any] = {"label": self.label, "score": self.score, "box_xyxy": list(self.box)}
        if self.segmentation is not None:
            fields["segmentation"] = self.segmentation
        return fields


@dataclass(frozen=True)
class Check:
    """The result for one picture.

    Attributes:
        prompt: what it should show.
        verdict: "PASS" if all its relations pass, "FAIL" if one fails, else "UNDECIDABLE"; None if there is nothing that the
            checker decides.
        confidence: that of the least certain of its relations, from 0 to 1; None without a verdict.
        reason: why it did not pass.
        detections: what the detector found, best first.
        records: a record for each relation, as `prepose check --json` and `per_sample.jsonl` have it.
        rules: what published rules say where the checker's own has nothing to say: score (0 to 1), rule, about, note.
        unasked: what the prompt says that cannot be decided, and why.
    """

    prompt: str
    verdict: Optional[str]
    confidence: Optional[float]
    reason: Optional[str]
    detections: list[Detection]
    records: list[dict[str, Any]] = field(repr=False)
    rules: list[dict[str, Any]] = field(repr=False)
    unasked: list[str] = field(repr=False)

    @property
    def passed(self) -> bool:
        """Whether everything that was asked for is there."""
        return self.verdict == "PASS"

    @classmethod
    def _of(cls, said: dict[str, Any]) -> Check:
        found = [Detection.from_dict(one) for one in said["detections"]]
        return cls(**{**said, "detections": found})


class Checker:
    """Detectors and SpatialBench-UC's rule (arXiv 2601.13462).

    Args:
        checker: a detector: "toybox", which only knows the toybox's pictures and is the default, "frcnn-v2",
            "grounding-dino-base" and others (docs/detectors.md), or the path of one.
        options: those of `prepose check` about detectors and rules: secondary, masks, depth (a network, or a folder of maps for
            pictures that are given as files), config, published, device, batch.

    After a fork, neither can a checker be used nor another one opened.

    Raises:
        CheckpointError, CheckError, DeviceError: something that it needs cannot be used.
    """

    def __init__(self, checker: Optional[Path] = None, **options: Unpack[CheckerOptions]) -> None:
        self._native = _prepose.Checker(checker, **options)

    @property
    def name(self) -> str:
        """The detector's name in records."""
        return self._native.name

    @property
    def vocabulary(self) -> Optional[list[str]]:
        """The labels that the detector can give; None if it takes any phrase."""
        return self._native.vocabulary

    def check(
        self,
        pictures: Any,
        *,
        prompt: Optional[str] = None,
        relation: Union[Relation, Iterable[Relation]] = (),
    ) -> list[Check]:
        """Says whether each picture shows what was asked for.

        Args:
            pictures: one, or a list of them: a `Picture`, a path, a file's bytes, `PIL.Image.Image`, or an array, uint8
                [height, width, 3].
            prompt: what they should show, unless they say so themselves, as pictures made by prepose do.
            relation: what should hold instead of what the prompt states: "dog | left of | cat", or ("dog", "left of", "cat").

        Raises:
            PictureError: something is not a picture.
            CheckError: a picture that does not say what it should show.
            OptionError: a prompt that cannot be read.
        """
        return [Check._of(said) for said in self._native._check(pictures, prompt, _relations(relation))]

    def detect(self, pictures: Any, *, phrases: Sequence[str] = ()) -> list[list[Detection]]:
        """What the detector finds in each picture, best first. Detectors without a vocabulary look for `phrases`."""
        found = self._native._detect(pictures, [phrases] if isinstance(phrases, str) else list(phrases))
        return [[Detection.from_dict(one) for one in picture] for picture in found]

    def __repr__(self) -> str:
        return repr(self._native)


def decide(
    prompt: str,
    size: Sequence[int],
    detections: Iterable[Union[Detection, dict[str, Any]]],
    *,
    relation: Union[Relation, Iterable[Relation]] = (),
    config: Optional[Path] = None,
    published: bool = False,
) -> Check:
    """Applies SpatialBench-UC's rule to existing detections; no network is needed.

    Args:
        prompt: what the picture should show.
        size: its width and height in pixels.
        detections: what was found in it; dictionaries have label, score and box_xyxy, as in records.
        relation: what should hold instead of what the prompt states.
        config: thresholds, in the format of SpatialBench-UC's checker_config.yaml [the paper's calibrated ones].
        published: decide as the released evaluator does, even where it is plainly wrong.
    """
    found = [one.to_dict() if isinstance(one, Detection) else dict(one) for one in detections]
    width, height = _size(size)
    said = _prepose._decide(prompt, (width, height), found, _relations(relation), config, published)
    return Check._of(said)


def _size(size: Sequence[int]) -> tuple[int, int]:
    sides = [int(side) for side in size]
    if len(sides) != 2 or not all(0 < side <= 16384 for side in sides):
        raise CheckError(f"the size {tuple(size)} should be width and height in pixels, from 1 to 16384")
    return sides[0], sides[1]


def _relations(relation: Union[Relation, Iterable[Relation]]) -> list[str]:
    """As texts with bars: one relation, or several."""
    if isinstance(relation, str):
        return [relation]
    given = list(relation)
    if isinstance(relation, tuple) and given and all(isinstance(part, str) and "|" not in part for part in given):
        return [" | ".join(given)]
    return [one if isinstance(one, str) else " | ".join(str(part) for part in one) for one in given]
