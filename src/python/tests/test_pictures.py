"""Pictures, requests, maps, searches: what Python sees of them."""

import io
import json

import numpy
import prepose
import pytest
from conftest import PROMPT
from PIL import Image


def test_arrays_are_views(guided):
    array = guided.array
    assert array.shape == (guided.height, guided.width, 3) and array.dtype == numpy.uint8
    assert not array.flags.owndata and not array.flags.writeable
    assert array.__array_interface__["data"][0] == guided.__array_interface__["data"][0]
    (maps,) = guided.maps
    assert maps.array.dtype == numpy.float32 and not maps.array.flags.writeable
    assert maps.array.__array_interface__["data"][0] == maps.__array_interface__["data"][0]
    # Numbers stay as long as an array looks at them.
    values = maps.array
    kept = values.copy()
    del maps
    assert numpy.array_equal(values, kept)


def test_maps_by_object(guided):
    (maps,) = guided.maps
    steps, objects, rows, columns = maps.array.shape
    assert (steps, objects) == (4, 2) and len(maps) == 2
    assert maps["dog"].shape == (steps, rows, columns)
    assert numpy.array_equal(maps["cat"], maps[1]) and numpy.array_equal(maps[-1], maps[1])
    assert numpy.allclose(maps.mean(), maps.array.mean(axis=0))
    with pytest.raises(KeyError, match="there is no map of"):
        maps["bird"]
    with pytest.raises(IndexError):
        maps[2]


def test_pil_and_png(guided):
    image = guided.pil()
    assert image.mode == "RGB" and numpy.array_equal(numpy.asarray(image), guided.array)
    opened = Image.open(io.BytesIO(guided.png()))
    assert numpy.array_equal(numpy.asarray(opened), guided.array)
    assert json.loads(opened.text["prepose"])["request"] == guided.request.to_dict()
    assert guided._repr_png_() == guided.png()


def test_requests_are_data(engine, guided):
    request = guided.request
    fields = request.to_dict()
    assert prepose.Request(fields) == request == prepose.Request(request.to_json())
    assert fields["guide"]["method"] == "pos" and len(fields["model"]["sha256"]) == 64
    assert fields["model"]["sha256"] == engine.sha256
    (again,) = engine.make(request)
    assert numpy.array_equal(again.array, guided.array)
    other = request.replace(seed=10)
    assert other.seed == 10 and other != request and other.prompt == PROMPT
    with pytest.raises(prepose.OptionError, match=r"this is not a request.*unknown field"):
        request.replace(sede=1)


def test_a_changed_picture_was_found_by_no_search(engine, tmp_path):
    (best,) = engine.generate(PROMPT, seed=0, steps=3, best_of=2)
    request, fields = best.request, best.request.to_dict()
    (same,) = engine.make(request.replace(seed=request.seed))
    assert same.request == request and same.score == fields["found"]["score"]
    (other,) = engine.make(request.replace(steps=2))
    assert other.score is None and "found" not in other.request.to_dict()
    best.save(tmp_path / "best.png")
    (same,) = engine.generate(again=tmp_path / "best.png")
    assert same.request == request and same.score == fields["found"]["score"]
    (other,) = engine.generate(again=tmp_path / "best.png", steps=2)
    assert other.score is None and "found" not in other.request.to_dict()
    # Unless it is said.
    assert request.replace(steps=2, found=fields["found"]).to_dict()["found"] == fields["found"]
    # The same request for other networks.
    fields["model"]["sha256"] = "0" * 64
    (other,) = engine.make(prepose.Request(fields))
    assert other.score is None and numpy.array_equal(other.array, same.array)


def test_another_checkpoint_has_a_classifier_of_its_own(engine):
    (request,) = engine.requests(PROMPT, seed=1, steps=2)
    guide = {"method": "steer", "steps": 1, "updates": 1, "classifier_sha256": "0" * 64}
    model = {**request.to_dict()["model"], "checkpoint": "elsewhere"}
    elsewhere = request.replace(model=model, guide=guide)
    assert elsewhere.to_dict()["guide"] == {**guide, "preset": "default"}
    assert elsewhere.replace(seed=2).to_dict()["guide"]["classifier_sha256"] == "0" * 64
    other = elsewhere.replace(model={**model, "checkpoint": "toybox"})
    assert "classifier_sha256" not in other.to_dict()["guide"]
    (made,) = engine.make(elsewhere)
    assert "classifier_sha256" not in made.request.to_dict()["guide"]


def test_requests_without_making(engine):
    requests = engine.requests([PROMPT, "a tree"], seeds=[7, 8], steps=3)
    assert [(one.prompt, one.seed, one.steps) for one in requests] == [(PROMPT, 7, 3), (PROMPT, 8, 3), ("a tree", 7, 3), ("a tree", 8, 3)]
    defaults = engine.requests("a tree", seed=1)[0]
    assert {"width": defaults.width, "steps": defaults.steps} == {key: engine.defaults[key] for key in ("width", "steps")}


def test_searches_tell_of_their_candidates(engine):
    pictures = engine.generate(PROMPT, seed=0, steps=4, best_of=4, prune=[2], keep_all=True)
    (candidates,) = pictures.candidates
    assert [one["index"] for one in candidates] == [0, 1, 2, 3]
    assert sorted(one["steps"] for one in candidates) == [2, 2, 4, 4]
    assert len(pictures) == 2 and pictures[0].score >= pictures[1].score
    best = max((one for one in candidates if one["steps"] == 4), key=lambda one: one["score"])
    assert (pictures[0].seed, pictures[0].score) == (best["seed"], best["score"])
    assert pictures[0].cost["candidates"] == 4


def test_pictures_come_as_they_are_made(engine):
    coming = engine.iterate("a dog", seeds=[1, 2, 3], steps=1, batch=1)
    assert next(coming).seed == 1
    assert [one.seed for one in coming] == [2, 3]


def test_saved_under_names_of_their_own(engine, tmp_path):
    pictures = engine.generate("a dog", seeds=[1, 1], steps=1)
    paths = pictures.save(tmp_path / "out")
    assert len(set(paths)) == 2 and [prepose.Request.from_png(path).seed for path in paths] == [1, 1]


def test_image_to_image(engine, guided, tmp_path):
    guided.save(tmp_path / "start.png")
    (picture,) = engine.generate("a dog", seed=1, steps=4, init_image=tmp_path / "start.png", strength=0.5)
    assert picture.request.to_dict()["init"]["strength"] == 0.5
    assert picture.cost["unet_calls"] == 2
