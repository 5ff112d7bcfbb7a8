"""The checker, rules, sets of prompts, runs, judges."""

import io
import json
import shutil

import numpy
import prepose
import pytest
from conftest import PROMPT
from PIL import Image
from prepose import _prepose

DOG = prepose.Detection("dog", 0.9, (10.0, 40.0, 40.0, 70.0))
CAT = prepose.Detection("cat", 0.9, (80.0, 40.0, 110.0, 70.0))


def test_pictures_of_all_kinds(checker, guided, tmp_path):
    guided.save(tmp_path / "a.png")
    kinds = [guided, tmp_path / "a.png", str(tmp_path / "a.png"), (tmp_path / "a.png").read_bytes(), guided.pil(), guided.array]
    checked = checker.check(kinds, prompt=PROMPT)
    assert len(checked) == len(kinds)
    assert all((one.verdict, one.confidence, one.detections) == (checked[0].verdict, checked[0].confidence, checked[0].detections) for one in checked)
    # Views that are not in one piece, and palettes.
    mirrored = checker.detect(guided.array[:, ::-1])[0]
    assert mirrored == checker.detect(guided.array[:, ::-1].copy())[0]
    assert checker.detect(guided.pil().convert("P"))


class Tensor:
    """An array on demand, as those of PyTorch and JAX."""

    def __init__(self, array):
        self.values = array

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __iter__(self):
        return iter(self.values)


def test_photos_are_turned_as_their_exif_data_say(checker, guided, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: a quarter turn clockwise from upright
    guided.pil().crop((0, 0, 64, 40)).save(tmp_path / "photo.jpg", exif=exif)
    for photo in (tmp_path / "photo.jpg", (tmp_path / "photo.jpg").read_bytes()):
        upright = Image.open(io.BytesIO(_prepose.png_of(photo)))
        assert upright.size == (40, 64)
        assert checker.detect(photo) == checker.detect(upright)


def test_files_in_memory_carry_their_request(checker, guided):
    (one,) = checker.check(guided.png())
    assert (one.prompt, one.verdict) == (PROMPT, checker.check(guided)[0].verdict)
    judge = prepose.Judge(device="flex")
    assert judge.ask(guided.png()).lines == judge.ask(guided).lines
    with pytest.raises(prepose.PictureError, match="picture 0 does not say"):
        judge.ask(_prepose.png_of(guided.array))


def test_depth_maps_are_those_of_files(guided, tmp_path):
    guided.save(tmp_path / "front.png")
    (tmp_path / "maps").mkdir()
    # The left half is nearer.
    nearer = numpy.zeros((guided.height, guided.width), "u1")
    nearer[:, : guided.width // 2] = 200
    Image.fromarray(nearer).save(tmp_path / "maps" / "front.png")
    checker = prepose.Checker(device="flex", depth=tmp_path / "maps")
    mapped, bare = checker.check([tmp_path / "front.png", guided.array], prompt="a dog in front of a cat")
    assert [rule["rule"] for rule in mapped.rules] == ["t2i-compbench-3d"] and not mapped.unasked
    assert not bare.rules and "depth map" in bare.unasked[0]
    (tmp_path / "maps" / "front.png").write_bytes(b"no map")
    with pytest.raises(prepose.CheckError, match=r"front\.png"):
        checker.check(tmp_path / "front.png", prompt="a dog in front of a cat")


def test_what_is_said_of_a_picture(checker, guided):
    (one,) = checker.check(guided)
    assert one.prompt == PROMPT and one.verdict in {"PASS", "FAIL", "UNDECIDABLE"} and 0 <= one.confidence <= 1
    assert one.passed == (one.verdict == "PASS")
    assert checker.name == "toybox" and {"dog", "cat"} <= set(checker.vocabulary)
    assert one.detections == checker.detect(guided)[0]
    # The other way round it is not.
    (other,) = checker.check(guided, relation=("dog", "right of", "cat"))
    assert {one.verdict, other.verdict} in ({"PASS", "FAIL"}, {"UNDECIDABLE"})


def test_where_the_checker_has_nothing_to_say(checker, guided):
    (neutral,) = checker.check(guided, prompt="a dog and a cat")
    assert neutral.verdict is None and neutral.confidence is None
    assert neutral.rules[0]["about"] == "dog and cat"
    (unknown,) = checker.check(guided, prompt="a unicorn to the left of a cat")
    assert unknown.verdict is None and "unicorn" in unknown.unasked[0]


def test_other_checkpoints_pictures_need_a_detector_that_is_named(checker, guided, tmp_path):
    # A picture that says that another checkpoint has made it.
    from PIL import PngImagePlugin

    info = PngImagePlugin.PngInfo()
    image = Image.open(io.BytesIO(guided.png()))
    stored = json.loads(image.text["prepose"])
    stored["request"]["model"]["checkpoint"] = "sd15.safetensors"
    info.add_text("prepose", json.dumps(stored))
    image.save(tmp_path / "other.png", pnginfo=info)
    with pytest.raises(prepose.CheckError, match=r"sd15\.safetensors made it"):
        checker.check(tmp_path / "other.png")
    assert prepose.Checker("toybox", device="flex").check(tmp_path / "other.png")


def test_the_rule_without_an_engine():
    said = prepose.decide("a dog to the left of a cat", (128, 128), [DOG, CAT])
    assert (said.verdict, said.passed, said.reason) == ("PASS", True, None)
    assert prepose.decide("a dog to the right of a cat", (128, 128), [DOG.to_dict(), CAT.to_dict()]).verdict == "FAIL"
    assert prepose.decide("a dog and a cat", (128, 128), [DOG, CAT], relation="dog | left of | cat").verdict == "PASS"
    missing = prepose.decide("a dog to the left of a cat", (128, 128), [DOG])
    assert missing.verdict == "UNDECIDABLE" and missing.reason
    two = prepose.decide("a dog to the left of a cat and above a bird", (128, 128), [DOG, CAT])
    assert len(two.records) == 2 and two.verdict == "UNDECIDABLE"


def test_rules_take_numpy_numbers():
    found = [{"label": "dog", "score": numpy.float64(0.9), "box_xyxy": numpy.array(DOG.box)}, CAT]
    said = prepose.score("visor", [{"prompt": "a dog to the left of a cat", "width": 128, "height": 128, "detections": found}])
    assert said.pictures[0]["score"] == 1.0 and said.rule == "visor"


def test_suites():
    suite = prepose.suite("geneval-position")
    assert len(suite) == len(list(suite)) == 100 and suite.pictures_per_prompt == 4
    assert suite[0]["prompt"] and suite[-1]["relations"] and len(suite[:3]) == 3
    assert "geneval-position" in [one["name"] for one in prepose.suites()]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "first"
    words = ["--every", "100", "--method", "prompt-only,psg", "--steps", "4", "--device", "flex", "--out", out]
    prepose.command("run", "spatialbench-uc", *words)
    return out


def test_runs_as_data_frames(run, lines):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    read = prepose.read_run(run)
    rows = read.pictures("dicts")
    assert len(rows) == 2 * 2 * 4 and {row["method"] for row in rows} == {"prompt-only", "psg"}
    frame = read.pictures()
    assert isinstance(frame, pandas.DataFrame) and frame["seed"].tolist() == [row["seed"] for row in rows]
    assert isinstance(read.pictures("polars"), polars.DataFrame)
    records = lines(run / "psg" / "eval" / "per_sample.jsonl")
    ours = [{key: value for key, value in row.items() if key != "method"} for row in read.records("dicts") if row["method"] == "psg"]
    assert ours == records
    assert [row["verdict"] for row in rows if row["method"] == "psg"] == [record["verdict_raw"] for record in records]
    assert set(read.table("main_results", "dicts")[0]) and "main_results" in read.tables
    with pytest.raises(prepose.OptionError, match="there is no table"):
        read.table("none")


def test_what_a_reader_should_know_of_a_run(run, tmp_path):
    copied = shutil.copytree(run, tmp_path / "copied")
    assert not any("not finished" in note or "digests" in note for note in prepose.read_run(copied).notes)
    config = json.loads((copied / "run.json").read_text())
    config["methods"].append({**config["methods"][0], "name": "more"})
    (copied / "run.json").write_text(json.dumps(config))
    with pytest.raises(prepose.RunError, match=r"is damaged: run\.json"):
        prepose.read_run(copied)
    # Without digests nobody knows of that.
    (copied / "digests.jsonl").unlink()
    notes = prepose.read_run(copied).notes
    assert any("digests.jsonl" in note for note in notes)
    assert any("not finished" in note and "more 0 of 8" in note for note in notes)


def test_what_a_judge_noted_of_a_run(run, tmp_path):
    copied = shutil.copytree(run, tmp_path / "copied")
    (copied / "judged").mkdir()
    (copied / "judged" / "judged.json").write_text(json.dumps({"judge": "oracle", "notes": ["it says yes"], "tables": []}))
    assert "Judge oracle: it says yes" in prepose.read_run(copied).notes


def test_pictures_elsewhere_are_where_their_path_says(guided, tmp_path):
    guided.save(tmp_path / "a.png")
    folder = tmp_path / "method"
    folder.mkdir()
    named = [str(tmp_path / "a.png"), "../a.png"]
    lines = [json.dumps({"image_path": path, "prompt": PROMPT, "sample_id": path[-8:]}) for path in named]
    (folder / "manifest.jsonl").write_text("\n".join(lines))
    rows = prepose.read_run(folder).pictures("dicts")
    assert [row["path"] for row in rows] == [named[0], str(folder / "../a.png")]


def test_judges(guided, tmp_path):
    said = prepose.Judge(checker="toybox", device="flex").ask([guided, guided.array], prompt=PROMPT)
    assert len(said.lines) == 2 and said.lines[0]["objects"] == said.lines[1]["objects"]
    assert said.questions == said.new + 0 and said.unanswered == 0
    book = prepose.Judge(device="flex", out=tmp_path / "book")
    first, second = book.ask(guided), book.ask(guided)
    assert first.lines == second.lines and (first.new, second.new) == (first.questions, 0)
    with pytest.raises(prepose.JudgeError, match="2 prompts"):
        book.ask(guided, prompt=["a", "b"])


def test_judges_take_tensors(guided):
    judge = prepose.Judge(device="flex")
    assert judge.ask(Tensor(guided.array), prompt=PROMPT).lines == judge.ask(guided, prompt=PROMPT).lines


def test_judges_ask_about_what_a_picture_ends_with(engine):
    judge = prepose.Judge(device="flex")

    def asked(prompt, **options):
        (picture,) = engine.generate(prompt, seed=9, steps=4, **options)
        (line,) = judge.ask(picture).lines
        return len(line["objects"]), len(line["relations"])

    assert asked("a dog and a cat", switch_to="a dog to the left of a cat", switch_at=1) == (2, 1)
    assert asked("a [red ball:cat:2] to the left of a dog") == (2, 1)
    assert asked("a dog, a cat", relation=("dog", "left of", "cat"), guide="pos") == (2, 1)
    # Of a composed prompt the first part is read.
    assert asked("a dog to the left of a cat AND a bird") == (2, 1)
    # What is said here goes before all that.
    (picture,) = engine.generate("a dog, a cat", seed=9, steps=4, relation=("dog", "left of", "cat"), guide="pos")
    assert judge.ask(picture, prompt="a dog").lines[0]["relations"] == []
