"""A diffusers pipeline's networks as a checkpoint."""

from pathlib import Path

import numpy
import prepose
import pytest

torch = pytest.importorskip("torch")
diffusers = pytest.importorskip("diffusers")


@pytest.fixture(scope="module")
def folder():
    """The toybox as a folder that diffusers loads."""
    return Path(__file__).resolve().parents[3] / "weights" / "toybox"


@pytest.fixture(scope="module")
def pipeline(folder):
    return diffusers.StableDiffusionPipeline.from_pretrained(folder, safety_checker=None)


def test_the_same_pictures_as_from_the_folder(pipeline, folder, tmp_path):
    shared = prepose.Engine.from_pipeline(pipeline, device="flex")
    opened = prepose.Engine(folder, device="flex")
    for options in ({"guide": "pos"}, {"best_of": 2}):
        one, other = (engine.generate("a dog to the left of a cat", seed=9, steps=4, **options)[0] for engine in (shared, opened))
        assert numpy.array_equal(one.array, other.array)
    # Image to image reads the encoder later, from the same memory.
    one.save(tmp_path / "start.png")
    one, other = (engine.generate("a cat", seed=1, steps=4, init_image=tmp_path / "start.png")[0] for engine in (shared, opened))
    assert numpy.array_equal(one.array, other.array)
    assert len(shared.sha256) == 64


def test_weights_are_read_where_they_lie(pipeline):
    from prepose._pipeline import parts

    _, texts, tensors = parts(pipeline)
    assert {"unet/config.json", "scheduler/scheduler_config.json", "tokenizer/tokenizer_config.json"} <= set(texts)
    state = pipeline.unet.state_dict()
    for key, kind, shape, address, size, _ in tensors["unet/diffusion_pytorch_model.safetensors"]:
        assert address == state[key].data_ptr() and shape == list(state[key].shape) and size == state[key].nbytes
        assert kind == "float32"


def test_changed_weights_and_other_types(pipeline):
    # The folder says which guidance scale it is best run with, and networks put together by hand do not.
    options = dict(seed=1, steps=4, guidance_scale=3.0)
    before = prepose.Engine.from_pipeline(pipeline, device="flex").generate("a dog", **options)[0]
    half = diffusers.StableDiffusionPipeline(**{**pipeline.components, "unet": pipeline.unet.to(torch.float16)}, requires_safety_checker=False)
    after = prepose.Engine.from_pipeline(half, device="flex").generate("a dog", **options)[0]
    pipeline.unet.to(torch.float32)
    assert before.request != after.request  # another checkpoint, by its hash
    assert abs(before.array.astype(int) - after.array.astype(int)).mean() < 1


def test_what_is_no_pipeline():
    for wrong in (None, 3, "toybox", torch.nn.Linear(1, 1)):
        with pytest.raises(prepose.CheckpointError, match="no pipeline of Stable Diffusion"):
            prepose.Engine.from_pipeline(wrong)
