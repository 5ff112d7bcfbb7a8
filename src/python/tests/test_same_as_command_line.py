"""Same seeds, same pictures, same maps, same verdicts as the command line, which runs in a process of its own."""

import json
import struct

import numpy
import prepose
import pytest
from conftest import PROMPT
from PIL import Image


def pixels(path):
    return numpy.asarray(Image.open(path))


def values(path):
    """The tensor `maps` of a safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])["maps"]
    assert header["dtype"] == "F32"
    start, end = header["data_offsets"]
    return numpy.frombuffer(data[8 + length + start : 8 + length + end], "<f4").reshape(header["shape"])


CASES = {
    "plain": ({"seed": 3}, ["--seed", "3"]),
    "guided": ({"seed": 9, "guide": "pos", "guide_steps": 3}, ["--seed", "9", "--guide", "pos", "--guide-steps", "3"]),
    "boxes": (
        {"seed": 1, "guide": "boxdiff", "box": {"dog": (0.05, 0.25, 0.45, 0.75), "cat": (0.55, 0.25, 0.95, 0.75)}},
        ["--seed", "1", "--guide", "boxdiff", "--box", "dog: 0.05,0.25,0.45,0.75", "--box", "cat: 0.55,0.25,0.95,0.75"],
    ),
    "relation": (
        {"seed": 2, "guide": "pos", "relation": ("dog", "right of", "cat")},
        ["--seed", "2", "--guide", "pos", "--relation", "dog | right of | cat"],
    ),
    "boxes for GLIGEN's layers": ({"seed": 6, "ground": True}, ["--seed", "6", "--ground"]),
    "sampling": (
        {"seed": 5, "scheduler": "euler_a", "guidance_scale": 3.5, "negative_prompt": "a tree", "size": (128, 64), "noise": "torch"},
        ["--seed", "5", "--scheduler", "euler_a", "--guidance-scale", "3.5", "--negative-prompt", "a tree", "--size", "128x64", "--noise", "torch"],
    ),
    "switch": ({"seed": 4, "switch_to": "a red ball", "switch_at": 2}, ["--seed", "4", "--switch-to", "a red ball", "--switch-at", "2"]),
    "search": ({"seed": 0, "best_of": 4, "prune": [2]}, ["--seed", "0", "--best-of", "4", "--prune=2"]),
    "by the checker": (
        {"seed": 0, "best_of": 2, "reward": "checker"},
        ["--seed", "0", "--best-of", "2", "--reward", "checker"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_pictures(case, engine, command, tmp_path):
    options, words = CASES[case]
    path = tmp_path / "made.png"
    command("generate", PROMPT, "--steps", 4, "--device", "flex", "-o", path, "-q", *words)
    (picture,) = engine.generate(PROMPT, steps=4, **options)
    assert numpy.array_equal(picture.array, pixels(path))
    assert picture.request == prepose.Request.from_png(path)
    assert picture.png() == path.read_bytes()


def test_several_seeds_and_prompts_in_their_order(engine, command, tmp_path):
    prompts = ["a dog", "a cat"]
    command("generate", *prompts, "--seeds", "3-4", "--steps", 2, "--device", "flex", "--batch", 4, "-o", tmp_path, "-q")
    pictures = engine.generate(prompts, seeds=range(3, 5), steps=2, batch=4)
    assert [(one.prompt, one.seed) for one in pictures] == [("a dog", 3), ("a dog", 4), ("a cat", 3), ("a cat", 4)]
    for picture in pictures:
        path = tmp_path / f"{picture.prompt.replace(' ', '-')}-{picture.seed}.png"
        assert numpy.array_equal(picture.array, pixels(path))


def test_the_same_maps(guided, command, tmp_path):
    words = ["--seed", 9, "--steps", 4, "--guide", "pos", "--device", "flex", "--attention-maps", tmp_path / "maps", "-q"]
    command("generate", PROMPT, "-o", tmp_path / "made.png", *words)
    (maps,) = guided.maps
    assert maps.objects == ["dog", "cat"] and maps.steps == [0, 1, 2, 3]
    assert numpy.array_equal(maps.array, values(tmp_path / "maps" / "made.safetensors"))


def test_the_same_verdicts(engine, checker, command, lines, tmp_path):
    pictures = engine.generate(PROMPT, seeds=range(4), steps=6)
    for picture in pictures:
        picture.save(tmp_path / f"{picture.seed}.png")
    told = lines(command("check", tmp_path, "--device", "flex", "--json", "-q"))
    checked = checker.check([tmp_path / f"{seed}.png" for seed in range(4)])
    assert len({one.verdict for one in checked}) > 0
    for one, line in zip(checked, told):
        assert [one.verdict, one.reason, one.confidence] == [line["verdict"], line["reason"], line["confidence"]]
        (record,) = one.records
        assert record == {key: line[key] for key in record}
    # What is in memory is what is in the files.
    again = checker.check(pictures)
    assert [one.detections for one in again] == [one.detections for one in checked]


def test_a_picture_is_made_again(engine, guided, command, tmp_path):
    guided.save(tmp_path / "first.png")
    command("generate", "--again", tmp_path / "first.png", "--seed", 10, "--device", "flex", "-o", tmp_path / "second.png", "-q")
    (again,) = engine.generate(again=tmp_path / "first.png", seed=10)
    assert numpy.array_equal(again.array, pixels(tmp_path / "second.png"))


def test_the_same_scores(command, tmp_path):
    case = {
        "id": "1",
        "prompt": "a dog to the left of a cat",
        "width": 512,
        "height": 512,
        "detections": [
            {"label": "dog", "score": 0.9, "box_xyxy": [10, 20, 110, 220]},
            {"label": "cat", "score": 0.8, "box_xyxy": [300, 20, 410, 220]},
        ],
    }
    file = tmp_path / "detections.jsonl"
    file.write_text(json.dumps(case))
    for rule in ["visor", "geneval", "t2i-compbench", "pse", "hrs"]:
        if rule not in prepose.rules():
            continue
        told = json.loads(command("score", rule, file, "--json"))
        for given in (file, [case]):
            said = prepose.score(rule, given)
            assert said.figures == told["figures"] and said.pictures == told["pictures"]


def test_the_same_prompts_and_suites(command, lines):
    prompt = "a dog to the left of a cat and above a red car"
    assert prepose.parse(prompt) == json.loads(command("parse", prompt, "--json"))
    assert list(prepose.suite("geneval-position")) == lines(command("suites", "geneval-position"))
    assert prepose.suites() == lines(command("suites", "--json"))
