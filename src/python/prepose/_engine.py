"""Making pictures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from prepose import _prepose
from prepose._prepose import Picture, Request, Step

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from prepose._options import EngineOptions, GenerateOptions

Prompts = Union[str, Sequence[str]]
Callback = Optional[Callable[[Step], object]]
Path = Union[str, "os.PathLike[str]"]


class Pictures(list[Picture]):
    """Finished pictures, in order; from a search, the best of each, or with `keep_all` all of them, best first.

    Attributes:
        candidates: for each search, all its candidates, as dictionaries with index, seed, score and the steps that were taken.
    """

    def __init__(self, pictures: Iterable[Picture] = (), candidates: Iterable[list[dict[str, Any]]] = ()) -> None:
        super().__init__(pictures)
        self.candidates: list[list[dict[str, Any]]] = list(candidates)

    def save(self, folder: Path) -> list[str]:
        """Writes each as `prompt-seed.png` into `folder`, which is created if needed; returns the paths."""
        os.makedirs(folder, exist_ok=True)
        paths: list[str] = []
        for picture in self:
            words = "".join(letter if letter.isalnum() else "-" for letter in picture.prompt.lower())
            stem = "-".join(part for part in words.split("-") if part)[:60] or "picture"
            path = os.path.join(os.fspath(folder), f"{stem}-{picture.seed}.png")
            number = 2
            while path in paths or os.path.exists(path):
                path = os.path.join(os.fspath(folder), f"{stem}-{picture.seed}-{number}.png")
                number += 1
            picture.save(path)
            paths.append(path)
        return paths


class Engine:
    """A checkpoint on a device.

    Args:
        checkpoint: a diffusers folder, a .safetensors or .ckpt file, a name that `prepose pull` fetched, or "toybox", the
            checkpoint inside the package, which is the default.
        options: those of `prepose generate` under "Networks": device, dtype, lora, vae, config, gligen, ip_adapter,
            prediction, allow_mismatch, no_graphs, guide_save_memory.

    Threads take turns: one of them makes pictures at a time, and the others wait. After a fork, neither can an
    engine be used nor another one opened: start processes with multiprocessing's "spawn", or open engines only in the children.

    Raises:
        CheckpointError: the checkpoint cannot be used.
        DeviceError: there is no such device, or it cannot compute in that type.
        OptionError: an option makes no sense.
    """

    _native: _prepose.Engine

    def __init__(self, checkpoint: Optional[Path] = None, **options: Unpack[EngineOptions]) -> None:
        self._native = _prepose.Engine(checkpoint=checkpoint, **options)

    @classmethod
    def from_pipeline(cls, pipeline: Any, **options: Unpack[EngineOptions]) -> Engine:
        """The networks of a `diffusers` pipeline (StableDiffusionPipeline, StableDiffusionXLPipeline), with its scheduler.

        Weights are read directly from PyTorch's memory, without a file in between; only those on a device other than the CPU
        are copied to the host first. Do not change the pipeline's weights while the engine is in use: the autoencoder's encoder
        and, when memory is short, the text encoders are read only when they are needed. `options` are those of `Engine`,
        without checkpoint and config.
        """
        from prepose._pipeline import parts

        engine = cls.__new__(cls)
        engine._native = _prepose.open_pipeline(*parts(pipeline), dict(options))
        return engine

    @property
    def checkpoint(self) -> str:
        """The checkpoint, as it was named."""
        return self._native.checkpoint

    @property
    def device(self) -> str:
        """The device, as the option `device` names it: "cuda:0", "flex" (the CPU)."""
        return self._native.device

    @property
    def device_name(self) -> str:
        """The device with the name of the hardware, as recorded in pictures."""
        return self._native.device_name

    @property
    def dtype(self) -> str:
        """The type of the weights: "f32", "f16" or "bf16"."""
        return self._native.dtype

    @property
    def sha256(self) -> str:
        """The SHA-256 of the checkpoint's files, as recorded in pictures; waits until they have been read."""
        return self._native.sha256

    @property
    def defaults(self) -> dict[str, Any]:
        """The default width and height in pixels, steps and guidance_scale."""
        return self._native.defaults

    def __repr__(self) -> str:
        return repr(self._native)

    def __reduce__(self) -> Any:
        return self._native.__reduce__()

    def requests(self, prompt: Prompts = (), **options: Unpack[GenerateOptions]) -> list[Request]:
        """The requests that `generate` would make pictures from with these options, checked; nothing is made."""
        return self._native._order(_prompts(prompt), dict(options)).requests

    def generate(
        self,
        prompt: Prompts = (),
        *,
        callback: Callback = None,
        **options: Unpack[GenerateOptions],
    ) -> Pictures:
        """Makes pictures: one for each prompt and seed.

        Args:
            prompt: what they should show: one prompt, or several. With `again="picture.png"` it may be left out.
            callback: called with a `Step` after each step of each batch. If it raises an exception, `generate` stops and raises it.
            options: those of `prepose generate`, with underscores. Often used:
                seed, seeds: a number, or a list of them [random];
                steps, guidance_scale, size (a side, or width and height), scheduler, negative_prompt;
                guide ("pos", "boxdiff", …) with guide_steps, guide_scale, …; relation; box; region; ground;
                best_of, prune, reward, checker, keep_all: try several noises and keep the best;
                attention_maps=True with attention_words, attention_resolution, …: see `Picture.maps`;
                init_image with strength; switch_to, switch_at, delay_order; again; batch.

        Ctrl-C stops it after the current step with `KeyboardInterrupt`. Other Python threads keep running meanwhile.

        Raises:
            OptionError, PictureError: found before anything is computed.
            OutOfMemoryError, EngineError: while pictures are being made.
        """
        pictures = Pictures()
        making = self._native._order(_prompts(prompt), dict(options))
        while (made := making.next(callback)) is not None:
            pictures.extend(made[0])
            if made[1]:
                pictures.candidates.append(made[1])
        return pictures

    def iterate(
        self,
        prompt: Prompts = (),
        *,
        callback: Callback = None,
        **options: Unpack[GenerateOptions],
    ) -> Iterator[Picture]:
        """Like `generate`, but yields each picture as soon as its batch is done. Mistakes are reported at once."""
        return _each(self._native._order(_prompts(prompt), dict(options)), callback)

    def make(
        self,
        requests: Union[Request, Sequence[Request]],
        *,
        batch: Union[str, int] = "auto",
        callback: Callback = None,
    ) -> Pictures:
        """Makes a picture from each request, with this engine's networks. The same request gives the same picture."""
        if isinstance(requests, Request):
            requests = [requests]
        return Pictures(_each(self._native._order_again(list(requests), str(batch)), callback))


def _prompts(prompt: Prompts) -> list[str]:
    return [prompt] if isinstance(prompt, str) else list(prompt)


def _each(making: _prepose.Making, callback: Callback) -> Iterator[Picture]:
    while (made := making.next(callback)) is not None:
        yield from made[0]
