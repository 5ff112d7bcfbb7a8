"""The options shared with the command line, with the types that they take here. A test compares their names with its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Union

Path = Union[str, "os.PathLike[str]"]
#: Whole numbers: a list, a range, or "0-7".
Numbers = Union[int, str, Iterable[int]]
#: "dog | left of | cat", or ("dog", "left of", "cat").
Relation = Union[str, Sequence[str]]
#: By object: left, upper, right and lower edge as shares of the picture; or "dog: 0.05,0.25,0.35,0.75".
Boxes = Union[str, Sequence[str], Mapping[str, Sequence[float]]]


class EngineOptions(TypedDict, total=False):
    """Which networks, and where they run."""

    config: Path
    vae: Path
    gligen: Path
    ip_adapter: Union[Path, Sequence[Path]]
    prediction: Literal["epsilon", "v"]
    lora: Union[Path, Sequence[Any], Mapping[str, float]]
    allow_mismatch: bool
    dtype: Literal["f32", "f16", "bf16"]
    device: str
    no_graphs: bool
    guide_save_memory: bool


class GenerateOptions(TypedDict, total=False):
    """How pictures are sampled, guided and searched for."""

    again: Path
    seed: Union[int, Literal["random"]]
    seeds: Numbers
    steps: int
    guidance_scale: float
    guidance_steps: str
    deep_cache: Union[int, str]
    tgate: Union[float, str]
    token_merging: Union[float, Literal["off"]]
    size: Union[int, str, tuple[int, int]]
    scheduler: str
    timestep_spacing: Literal["linspace", "leading", "trailing"]
    eta: float
    negative_prompt: str
    ip_picture: Union[Path, Sequence[Path]]
    clip_skip: int
    noise: str
    vae_tiling: Union[bool, Literal["auto", "on", "off"]]
    init_image: Path
    strength: float
    guide: str
    no_guide: bool
    guide_preset: str
    guide_steps: int
    guide_from: int
    guide_scale: float
    guide_resolution: int
    guide_layers: Union[str, Sequence[str]]
    guide_one_pass: bool
    guide_every: int
    guide_extrapolate: bool
    guide_smoothing: bool
    guide_refine: bool
    guide_loss: str
    guide_combine: str
    guide_distance: float
    steer: Path
    guide_updates: int
    guide_threshold: float
    guide_tokens: str
    relation: Union[Relation, Sequence[Relation]]
    extract_with: str
    extract_model: str
    extract_timeout: int
    box: Boxes
    ground: Union[bool, float]
    no_ground: bool
    no_ip_picture: bool
    region: Union[str, Sequence[str], Mapping[int, Sequence[float]]]
    switch_to: str
    switch_at: int
    delay_order: int
    neutral_prompt: str
    best_of: int
    reward: Literal["attention", "checker", "pse", "relations"]
    checker: Path
    masks: Path
    mask_choice: Literal["best", "only", "union", "largest"]
    depth: Path
    prune: Union[bool, Numbers]
    keep_all: bool
    attention_maps: bool
    attention_resolution: int
    attention_layers: Union[str, Sequence[str]]
    attention_words: Union[str, Sequence[str]]
    attention_heads: Numbers
    attention_every: int
    attention_half: Literal["positive", "negative"]
    batch: Union[int, Literal["auto"]]


class CheckerOptions(TypedDict, total=False):
    """Which networks look at pictures, and how it is decided."""

    secondary: Path
    masks: Path
    mask_choice: Literal["best", "only", "union", "largest"]
    depth: Path
    config: Path
    published: bool
    device: str
    batch: int


class JudgeOptions(TypedDict, total=False):
    """Who answers questions, and how they are asked."""

    judge_model: str
    judge_as: str
    judge_key: str
    judge_asks: Literal["ots", "scene", "all"]
    judge_rounds: int
    judge_seed: int
    judge_timeout: int
    judge_extra: Mapping[str, Any]
    dialect: Literal["plain", "openai", "llama", "ollama"]
    temperature: float
    max_tokens: int
    thinking: bool
    largest: int
    concurrency: int
    attempts: int
    price: tuple[float, float]
    checker: Path
    device: str
    out: Path


class ParseOptions(TypedDict, total=False):
    """How prompts are read."""

    relation: Union[Relation, Sequence[Relation]]
    checkpoint: Path
    tokens: str
    steps: int
    extract_with: str
    extract_model: str
    extract_timeout: int


class ScoreOptions(TypedDict, total=False):
    """How detections are scored."""

    published: bool
    min_score: float
    size: Union[int, str, tuple[int, int]]
    metadata: Path
    masks: Path
    mask_choice: Literal["best", "only", "union", "largest"]
    depth: Path
    image_reward: Path
    device: str
