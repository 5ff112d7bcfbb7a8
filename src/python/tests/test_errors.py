"""Bad input: one exception of the package with one clear message, found before anything is computed."""

import numpy
import prepose
import pytest
from conftest import PROMPT

OPTIONS = [
    ({"steps": 0}, prepose.OptionError, "steps is 0, but must be between 1 and 1000"),
    ({"steps": -3}, prepose.OptionError, "--steps"),
    ({"steps": "many"}, prepose.OptionError, "--steps"),
    ({"steps": 1e9}, prepose.OptionError, "--steps"),
    ({"steps": [1, 2]}, prepose.OptionError, "--steps"),
    ({"seed": -5}, prepose.OptionError, "a seed is a number from 0"),
    ({"seed": 2**64}, prepose.OptionError, "a seed is a number from 0"),
    ({"seed": 1, "seeds": [1]}, prepose.OptionError, "cannot be used with"),
    ({"seeds": []}, prepose.OptionError, "--seeds"),
    ({"guidance_scale": float("nan")}, prepose.OptionError, "guidance scale is NaN"),
    ({"guidance_scale": 1000}, prepose.OptionError, "between 0 and 100"),
    ({"size": 100}, prepose.OptionError, "the nearest is"),
    ({"size": (64, 64, 64)}, prepose.OptionError, "--size"),
    ({"size": "huge"}, prepose.OptionError, "--size"),
    ({"scheduler": "magic"}, prepose.OptionError, "possible values"),
    ({"guide": "magic"}, prepose.OptionError, "magic"),
    ({"guide_steps": 3}, prepose.OptionError, "--guide"),
    ({"guide": "boxdiff", "box": {"dog": (0, 0, 2, 1)}}, prepose.OptionError, "box"),
    ({"guide": "boxdiff", "box": {"bird": (0, 0, 0.5, 0.5)}}, prepose.OptionError, "bird"),
    ({"guide": "pos", "relation": "dog above"}, prepose.OptionError, "--relation"),
    ({"guide": "pos", "relation": ("dog", "above", "bird")}, prepose.OptionError, "bird"),
    ({"guide_one_pass": "yes", "guide": "pos"}, prepose.OptionError, "either True or False"),
    ({"best_of": 0}, prepose.OptionError, "ask for at least 1"),
    ({"prune": True}, prepose.OptionError, "--best-of"),
    ({"best_of": 2, "reward": "judge"}, prepose.OptionError, "judge"),
    ({"attention_maps": True, "attention_words": "bird"}, prepose.OptionError, "bird"),
    ({"attention_words": "dog"}, prepose.OptionError, "--attention-maps"),
    ({"init_image": "nowhere.png"}, prepose.PictureError, "nowhere.png"),
    ({"strength": 0.5}, prepose.OptionError, "--init-image"),
    ({"again": "nowhere.png"}, prepose.PreposeError, "nowhere.png"),
    ({"batch": 0}, prepose.OptionError, "at least 1"),
    ({"clip_skip": 99}, prepose.OptionError, "clip skip is 99"),
    ({"ip_picture": "dog.png"}, prepose.PreposeError, "dog.png|IP-Adapter"),
    ({"ground": 1.5}, prepose.OptionError, "between 0 and 1"),
    ({"stpes": 3}, TypeError, "did you mean \"steps\""),
    ({"out": "x"}, TypeError, "has no option \"out\""),
    ({"guide-steps": 3}, TypeError, "has no option"),
]


@pytest.mark.parametrize("options,kind,message", OPTIONS, ids=lambda value: str(value)[:40])
def test_options_that_make_no_sense(engine, options, kind, message):
    with pytest.raises(kind, match=message) as caught:
        engine.requests(PROMPT, **options)
    said = str(caught.value)
    assert "panic" not in said and "--help" not in said and "Usage" not in said and said.strip() == said


@pytest.mark.parametrize("prompt", ["", "  ", "-", [], ["a dog", ""], "()", "\ud800"])
def test_prompts_that_are_none(engine, prompt):
    with pytest.raises((prepose.OptionError, UnicodeError)):
        engine.requests(prompt, steps=2)


@pytest.mark.parametrize("prompt", [None, 3, [3], b"a dog"])
def test_prompts_that_are_no_text(engine, prompt):
    with pytest.raises(TypeError):
        engine.requests(prompt, steps=2)


def test_guidance_that_finds_nothing_to_do(engine):
    with pytest.raises(prepose.OptionError, match="states no relation"):
        engine.requests("a dog and a cat", guide="pos")


@pytest.mark.parametrize(
    "options,kind,message",
    [
        ({"checkpoint": "nowhere.safetensors"}, prepose.CheckpointError, "nowhere.safetensors"),
        ({"checkpoint": "sd15"}, prepose.CheckpointError, "sd15"),
        ({"device": "gpu"}, prepose.OptionError, "gpu"),
        ({"device": "flex:7"}, prepose.DeviceError, "there is only flex:0"),
        ({"dtype": "f8"}, prepose.OptionError, "possible values"),
        ({"lora": "nowhere.safetensors"}, prepose.CheckpointError, "nowhere.safetensors"),
        ({"lora": {"nowhere.safetensors": 0.5}}, prepose.CheckpointError, "nowhere.safetensors"),
        ({"chekpoint": "toybox"}, TypeError, "unexpected|did you mean"),
    ],
    ids=str,
)
def test_engines_that_cannot_be_opened(options, kind, message):
    with pytest.raises(kind, match=message):
        prepose.Engine(**options)


def test_files_that_are_no_checkpoint(tmp_path):
    for content in [b"", b"hello", b"\x80\x04" * 50, bytes(100)]:
        path = tmp_path / "model.safetensors"
        path.write_bytes(content)
        with pytest.raises(prepose.CheckpointError, match=r"model\.safetensors"):
            prepose.Engine(path)
    with pytest.raises(prepose.CheckpointError, match=r"model_index\.json"):
        prepose.Engine(tmp_path)


@pytest.mark.parametrize(
    "picture,message",
    [
        (numpy.zeros((4, 4), "u1"), "not a picture"),
        (numpy.zeros((4, 4, 3), "f4"), "an array of float32"),
        (numpy.zeros((4, 4, 4), "u1"), "not a picture"),
        (numpy.zeros((0, 4, 3), "u1"), "nothing to look at"),
        (b"not a picture", "not a picture"),
        ("nowhere.png", "cannot read nowhere.png"),
        (3, "a int is not a picture"),
        (None, "not a picture"),
        (object(), "not a picture"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_pictures_that_are_none(checker, picture, message):
    with pytest.raises(prepose.PictureError, match=message):
        checker.check(picture, prompt=PROMPT)


def test_pictures_without_a_prompt(checker):
    with pytest.raises(prepose.CheckError, match="does not say what it should show"):
        checker.check(numpy.zeros((64, 64, 3), "u1"))
    with pytest.raises(prepose.OptionError, match=r"cannot read the prompt|relation"):
        checker.check(numpy.zeros((64, 64, 3), "u1"), prompt="a dog", relation="dog above bird")


def test_checkers_that_cannot_be_opened(tmp_path):
    with pytest.raises(prepose.PreposeError, match="--checker nowhere"):
        prepose.Checker("nowhere")
    with pytest.raises(prepose.CheckError, match="--batch is 0"):
        prepose.Checker(batch=0)
    with pytest.raises(prepose.CheckpointError, match="--masks"):
        prepose.Checker(masks=tmp_path)
    with pytest.raises(TypeError, match="has no option"):
        prepose.Checker(prompt="a dog")


def test_data_that_is_not_there(tmp_path):
    with pytest.raises(prepose.RunError, match="nowhere"):
        prepose.read_run(tmp_path / "nowhere")
    with pytest.raises(prepose.RunError):
        prepose.read_run(tmp_path)
    with pytest.raises(prepose.RunError, match="nowhere"):
        prepose.suite("nowhere")
    with pytest.raises(prepose.OptionError, match="possible values"):
        prepose.score("magic", [{}])
    with pytest.raises(prepose.CheckError, match="no detections"):
        prepose.score("visor", [{"prompt": "a dog"}])
    with pytest.raises(prepose.CheckError, match="cannot read"):
        prepose.score("visor", tmp_path / "nowhere.jsonl")
    with pytest.raises(prepose.CheckError, match="these are not detections"):
        prepose.decide("a dog to the left of a cat", (64, 64), [{"label": "dog"}])
    with pytest.raises(prepose.CheckError, match="size"):
        prepose.decide("a dog to the left of a cat", (0, 64), [])
    with pytest.raises(prepose.OptionError, match="--judge-model"):
        prepose.Judge("http://localhost:1/v1")
    with pytest.raises(prepose.CommandError, match="nowhere") as caught:
        prepose.command("info", "nowhere")
    assert caught.value.code == 2


def test_kinds_of_errors():
    assert issubclass(prepose.OptionError, ValueError) and issubclass(prepose.OutOfMemoryError, MemoryError)
    for name in prepose.__all__:
        kind = getattr(prepose, name)
        if name.endswith("Error"):
            assert issubclass(kind, prepose.PreposeError)
