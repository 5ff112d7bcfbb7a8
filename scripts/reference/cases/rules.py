#!/usr/bin/env python3
"""`fixtures/rules/`: what the authors' own code says of random detections.

    python scripts/reference/cases/rules.py ORIGINALS

ORIGINALS is a folder with clones of the authors' repositories under their own names:

    Why_Settle_for_Mid (Rezaei-Parham), VISOR (microsoft), geneval (djghosh13), T2I-CompBench (Karine-Huang),
    HRS_benchmark (eslambakr)

Their code is run as it stands there and is not part of this repository. What it would detect, look up or read is put in its
place: detectors, depth networks, part-of-speech taggers and files. The functions of a file that runs a whole evaluation when
it is imported are taken out of it one by one (`functions`); T2I-CompBench's programs run whole. OTS-Bench has no public
code. Needs torch, torchvision, numpy, Pillow and pycocotools.
"""

import ast
import json
import os
import pickle
import random
import sys
import tempfile
import types
import warnings
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import case_dir
from originals import box, detections, functions, mask_of, near_boundary, notebook, number, rectangles

COMMITS = {
    "Why_Settle_for_Mid": "7e35b9c8aabb0d0c27537ecc95620c05479064ce",
    "VISOR": "b9e368b73422aad655cc7121648beaca5c94563b",
    "geneval": "af4902f24d3ca90ebbb446dd9891a59e0f82725f",
    "T2I-CompBench": "1b7094991a57f3c22abdd4f6e8ba6c1a15517073",
    "HRS_benchmark": "4df908c87f6139dfe4164901b7227b4f69ff3d7f",
}


def write(folder, name, value):
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    (folder / f"{name}.json").write_text(text.replace("},{", "},\n{") + "\n", encoding="utf-8")


# One function an original.


def pse(originals, rng):
    root = originals / "Why_Settle_for_Mid"
    names = ["get_projected_mask", "calculate_prod_cumsum", "get_rel_pair", "get_score", "get_score_from_mask"]
    metric = functions((root / "pse_metric.py").read_text(), names, {"torch": torch})
    script = functions((root / "PSE/calculate_pse.py").read_text(), names[1:4], {"torch": torch, "np": np})
    cases = []
    for i in range(60):
        width, height = int(rng.integers(3, 40)), int(rng.integers(3, 40))
        a, b = rectangles(rng, width, height), rectangles(rng, width, height)
        if i % 7 == 0:
            b = a
        if i % 11 == 0:
            a = [[1, 1, 1, 1]]
        masks = [mask_of(parts, width, height) for parts in (a, b)]
        relation = ["to the left of", "to the right of", "above", "below"][i % 4]
        profiles = [(m.sum(0), m.sum(1)) for m in masks]
        score, detail = script.get_score(*profiles[0], *profiles[1], relation)
        case = dict(size=[width, height], a=a, b=b, relation=relation, score=float(score))
        if isinstance(detail, str):
            case["missing"] = detail
        else:
            case["wrong"], case["right"] = detail
            # The metric for users agrees where masks are doubles; of boolean ones it makes 32-bit floats.
            again, _ = metric.get_score_from_mask(*(torch.from_numpy(m).double() for m in masks), relation)
            case["score_f32"], _ = metric.get_score_from_mask(*(torch.from_numpy(m) for m in masks), relation)
            assert abs(again - score) < 1e-14
        cases.append(case)
    return cases


def pse_depth(originals, rng):
    names = ["get_depth", "count_values_in_bins", "calculate_pos", "get_loss", "cal_score"]
    world = {}
    namespace = {
        "np": np, "torch": torch,
        "Image": types.SimpleNamespace(open=lambda url: None),
        "get_mask": lambda url, name: world[name],
        "pipe": lambda image: {"depth": world["depth"]},
    }
    script = functions((originals / "Why_Settle_for_Mid/PSG/3D.py").read_text(), names, namespace)
    count, histograms = namespace["count_values_in_bins"], []
    namespace["count_values_in_bins"] = lambda *args: histograms.append(count(*args)) or histograms[-1]
    cases = []
    for i in range(24):
        width, height = int(rng.integers(4, 14)), int(rng.integers(4, 14))
        if i % 3:
            depth = rng.integers(0, 256, (height, width)).astype(np.uint8)
        else:
            depth = np.round(rng.uniform(0.5, 30, (height, width)), 3)
        if i == 4:
            depth[:] = 7
        a, b = rectangles(rng, width, height), rectangles(rng, width, height)
        world.update(depth=depth, a=mask_of(a, width, height), b=mask_of(b, width, height))
        histograms.clear()
        case = dict(size=[width, height], a=a, b=b, depth=depth.flatten().tolist())
        try:
            with np.errstate(all="ignore"):
                behind, front = (float(s) for s in script.cal_score(None, "a", "b"))
            # All pixels of an object in the bin that is left out: 0/0.
            case |= dict(behind=None, front=None) if np.isnan(behind) else dict(behind=behind, front=front)
            case["histograms"] = [{int(k): int(h[k]) for k in np.flatnonzero(h)} for h in histograms]
        except ValueError:  # an object without any depth; the script passes over it
            case["skipped"] = True
        cases.append(case)
    return cases


def visor(originals, rng):
    root = originals / "VISOR"
    import itertools

    page = functions(notebook(root / "text2image_realtime_evaluate.ipynb"),
                     ["increment_dict", "process_detection", "get_visor", "get_visor_per_text"],
                     {"np": np, "itertools": itertools})
    script = functions((root / "visor.py").read_text(), ["increment_dict", "get_visor_n", "get_visor_spatial"], {})
    relations = ["to the left of", "to the right of", "above", "below", "and"]
    texts, results, pictures, alone = [], {}, [], []
    for unique in range(30):
        relation = relations[unique % 5]
        texts.append(dict(unique_id=unique, num_objects=2, obj_1_attributes=["kite"], obj_2_attributes=["bus"],
                          rel_type=relation, text=f"a kite {relation} a bus"))
        own = {}
        for k in range(4):
            # The notebook's `score > 0.1` is on doubles here; 0.1 itself is among them.
            found = detections(rng, ["kite", "bus"])
            if k == 3:
                found = [f | dict(score=0.1) if j == len(found) - 1 else f for j, f in enumerate(found)]
            tensor = lambda values, shape: torch.tensor(values, dtype=torch.float64).reshape(shape)
            out = dict(boxes=tensor([f["box_xyxy"] for f in found], (-1, 4)), scores=tensor([f["score"] for f in found], -1),
                       labels=torch.tensor([["kite", "bus"].index(f["label"]) for f in found], dtype=torch.long))
            entry = page.process_detection([out], "kite", "bus", relation) | dict(text=texts[-1]["text"])
            own[f"{unique}_{k}"] = entry
            pictures.append(dict(id=f"{unique}_{k}", relation=relation, sra=entry["sra"], detections=found))
        results |= own
        if relation != "and":
            uncond, cond, per_text, accuracy = page.get_visor(own, "kite", "bus", relation, unique)
            alone.append(dict(prompt_id=str(unique), uncond=uncond, cond=cond, at_least=per_text, accuracy=accuracy))
    cond, at_least, accuracy = script.get_visor_spatial(results, texts)
    return dict(pictures=pictures, results=results, notebook_by_prompt=alone,
                script=dict(cond=cond, uncond=0.01 * (cond * accuracy[2]), at_least=at_least, accuracy=accuracy))


def geneval(originals, rng):
    world = {}
    classes = [line.strip() for line in (originals / "geneval/evaluation/object_names.txt").read_text().splitlines()]
    namespace = {
        "np": np, "json": json, "classnames": classes, "object_detector": None,
        "THRESHOLD": 0.3, "COUNTING_THRESHOLD": 0.9, "MAX_OBJECTS": 16, "NMS_THRESHOLD": 1.0, "POSITION_THRESHOLD": 0.1,
        "inference_detector": lambda detector, path: world["boxes"],
        "Image": types.SimpleNamespace(open=lambda path: None),
        "ImageOps": types.SimpleNamespace(exif_transpose=lambda image: None),
    }
    script = functions((originals / "geneval/evaluation/evaluate_images.py").read_text(),
                       ["compute_iou", "relative_position", "evaluate", "evaluate_image"], namespace)
    pairs = []
    for i in range(120):
        a = box(rng)
        b = near_boundary(rng, a) if i % 2 else box(rng)
        if i % 10 == 0:
            b = a
        held = script.relative_position((np.array(a + [0.9]), None), (np.array(b + [0.9]), None))
        pairs.append(dict(a=a, b=b, held=sorted(held)))
    pictures = []
    names = ["dog", "computer mouse", "bus"]
    for i in range(60):
        tag = "position" if i % 4 else "two_object"
        relation = ["left of", "right of", "above", "below"][i // 4 % 4]
        counts = [1 + (i % 9 == 0), 1 + (i % 13 == 0)]
        include = [{"class": "dog", "count": counts[0]}, {"class": "computer mouse", "count": counts[1]}]
        if tag == "position":
            include[1]["position"] = [relation, 0]
        metadata = dict(tag=tag, include=include, prompt=f"picture {i // 4}")
        found = detections(rng, names, most=6)
        if i % 2:  # both there and the most certain, often as they should be
            a, far = box(rng, 200), number(rng, 20, 250)
            x, y = {"left of": (-far, 9), "right of": (far, 9), "above": (9, -far), "below": (9, far)}[relation]
            b = [v + d + 300 for v, d in zip(a, (x, y, x, y))]
            a = [v + 300 for v in a]
            both = dict(label="dog", score=0.995, box_xyxy=a), dict(label="computer mouse", score=0.994, box_xyxy=[round(v, 2) for v in b])
            found = [*both, *found]
        if i == 5:  # more than 16 of a kind, all but the last of which count
            found = [dict(label="dog", score=round(0.99 - j / 100, 2), box_xyxy=box(rng)) for j in range(18)] + found[:1]
        by_class = lambda c: [f["box_xyxy"] + [f["score"]] for f in found if f["label"] == c]
        world["boxes"] = [np.array(by_class(c)).reshape(-1, 5) for c in classes]
        result = script.evaluate_image(f"{i // 4:05}/samples/{i % 4:04}.png", metadata)
        pictures.append(dict(detections=found, result=result | dict(correct=bool(result["correct"]), reason="")))
    return dict(pairs=pairs, pictures=pictures)


class Fields(dict):
    """What detectron2's `Instances` are to the scripts."""

    def get_fields(self):
        return self


def compbench(originals, pictures, labels, program, depth):
    """Runs T2I-CompBench's program on `pictures` [(file name, detections, depth)] and returns its scores."""
    nouns = set(labels) | {"girl", "boy", "man", "woman"}

    def batch(*_):
        return [dict(image_path=f"samples/{name}", image=torch.zeros(3, 1, 1), depth=map_) for name, _, map_ in pictures]

    def model(_):
        def prediction(found):
            tensor = lambda values, shape: torch.tensor(values, dtype=torch.float64).reshape(shape)
            return {"instances": Fields(
                pred_boxes=types.SimpleNamespace(tensor=tensor([f["box_xyxy"] for f in found], (-1, 4))),
                pred_classes=torch.tensor([labels.index(f["label"]) for f in found], dtype=torch.long),
                scores=tensor([f["score"] for f in found], -1))}

        return [prediction(found) for _, found, _ in pictures]

    token = lambda word: types.SimpleNamespace(text=word, pos_="NOUN" if word in nouns else "X")
    passed = lambda *things: things
    bank = types.SimpleNamespace(load_expert_model=lambda **_: (model, None))
    data = types.SimpleNamespace(Dataset=batch, collate_fn=None)
    stubs = {
        "experts": types.ModuleType("experts"), "experts.model_bank": bank, "experts.model_bank_3d": bank,
        "experts.obj_detection": types.ModuleType("obj_detection"), "experts.obj_detection.generate_dataset": data,
        "experts.obj_detection.generate_dataset_3d": data, "experts.depth": types.ModuleType("depth"),
        "experts.depth.generate_dataset": data,
        "accelerate": types.SimpleNamespace(Accelerator=lambda **_: types.SimpleNamespace(prepare=passed)),
        "tqdm": types.SimpleNamespace(tqdm=lambda items: items),
        "spacy": types.SimpleNamespace(load=lambda name: lambda text: [token(word) for word in text.split()]),
        "ruamel_yaml": types.SimpleNamespace(load=lambda *args, **_: None, Loader=None),
        "matplotlib": types.ModuleType("matplotlib"), "matplotlib.pyplot": types.ModuleType("pyplot"),
    }
    root = originals / "T2I-CompBench/UniDet_eval"
    saved = dict(sys.modules), torch.load, torch.utils.data.DataLoader, sys.argv, os.getcwd()
    with tempfile.TemporaryDirectory() as out:
        (Path(out) / "labels/depth").mkdir(parents=True)
        try:
            sys.modules.update(stubs)
            torch.load = lambda path: {"labels": dict(enumerate(labels))}
            torch.utils.data.DataLoader = lambda dataset, **_: [dataset]
            sys.argv = [program, "--outpath", out]
            os.chdir(root)
            exec(compile((root / program).read_text(), program, "exec"), {"__name__": "__main__"})
        finally:
            sys.modules.clear()
            sys.modules.update(saved[0])
            torch.load, torch.utils.data.DataLoader, sys.argv = saved[1:4]
            os.chdir(saved[4])
        kind = "3d" if depth else "2d"
        answers = json.loads((Path(out) / f"labels/annotation_obj_detection_{kind}/vqa_result.json").read_text())
    return [float(answer["answer"]) for answer in answers]


def t2i(originals, rng):
    phrases = ["on the left of", "on the right of", "on the bottom of", "on the top of", "next to", "near", "on side of", "on top of"]
    prompts = [f"a dog {phrase} a chair" for phrase in phrases] + ["a man next to a woman", "a boy on the left of a chair"]
    pictures = []
    for i in range(140):
        found = detections(rng, ["dog", "chair", "person", "cat"], least_score=0.11)
        if i % 3:
            # Both objects, often close to a boundary, sure enough to pass one half.
            a = box(rng)
            b = near_boundary(rng, a) if i % 2 else box(rng)
            found = [dict(label="person" if i % 10 > 7 else "dog", score=0.99, box_xyxy=a),
                     dict(label="person" if i % 10 == 8 else "chair", score=0.98, box_xyxy=b)] + found[2:]
        pictures.append((f"{prompts[i % 10]}_{i:06}.png", found, None))
    scores = compbench(originals, pictures, ["dog", "chair", "person", "cat"], "2D_spatial_eval.py", False)
    from PIL import Image
    from torchvision.transforms import Resize

    sizes = [(512, 512), (1024, 1024), (512, 768), (768, 512), (479, 480), (480, 479), (479, 479), (100, 101), (640, 64), (333, 512), (1, 1)]
    frames = [[*size, *Resize(size=479, max_size=480)(Image.new("L", size)).size] for size in sizes]
    return dict(pictures=[dict(file=n, detections=d, score=s) for (n, d, _), s in zip(pictures, scores)], frames=frames)


def t2i_depth(originals, rng):
    phrases = ["in front of", "behind", "hidden by"]
    pictures = []
    for i in range(90):
        found = detections(rng, ["dog", "chair", "teddy bear", "hot dog"], least_score=0.11)
        if i % 3:
            # Overlaps of 1/3, exactly 1/2, 2/3, touching, and others.
            a = [60.0, 90.0, 180.0, 330.0]
            others = [120.0, 90.0, 240.0, 330.0], [60.0, 90.0, 180.0, 210.0], [60.0, 90.0, 180.0, 250.0], [180.0, 90.0, 300.0, 330.0]
            b = [*others, box(rng), near_boundary(rng, a), a][i // 3 % 7]
            found = [dict(label="dog", score=0.99, box_xyxy=a), dict(label="chair", score=0.98, box_xyxy=b)] + found[2:]
        if i % 5 == 0:
            found = found[::-1]
            for rank, f in enumerate(found):
                f["score"] = round(0.95 - rank / 50, 2)
        name = ["dog", "bear"][i % 7 == 0]
        # Coarse maps, given as 6 × 6 blocks of 80 pixels.
        blocks = np.round(rng.uniform(0, 1, (6, 6)), 2)
        depth = torch.from_numpy(np.kron(blocks, np.ones((80, 80)))[:479, :479].copy())
        pictures.append((f"a {name} {phrases[i % 3]} a chair_{i:06}.png", found, depth, blocks.flatten().tolist()))
    labels = ["dog", "chair", "teddy bear", "hot dog", "bear"]
    scores = compbench(originals, [p[:3] for p in pictures], labels, "3D_spatial_eval.py", True)
    return [dict(file=n, detections=d, score=s, blocks=b) for (n, d, _, b), s in zip(pictures, scores)]


def hrs(originals, rng):
    root = originals / "HRS_benchmark/codes/eval_metrics"
    names = ["load_pred", "_check_right", "_check_left", "_check_above", "_check_below", "_check_between", "_sort_pred_obj", "cal_acc"]
    script = functions((root / "compositions/calc_spatial_relation_acc.py").read_text(), names, {"pickle": pickle})
    demo = ast.parse((root / "detection/UniDet-master/demo.py").read_text())
    # The part of the detector's program that joins detections of the same box.
    same = next(n for n in ast.walk(demo) if isinstance(n, ast.If) and ast.unparse(n.test) == "len(pred_objs) > 0")

    def load(pictures):
        predictions = {}
        for i, found in enumerate(pictures):
            namespace = {"pred_objs": np.array([[*map(str, f["box_xyxy"]), f["label"]] for f in found]).reshape(-1, 5)}
            exec(compile(ast.Module([same], []), "<original>", "exec"), namespace)
            predictions[i] = namespace["pred_filtered"]
        with tempfile.NamedTemporaryFile() as file:
            pickle.dump({0: predictions}, file)
            file.flush()
            return script.load_pred(file.name, 0)

    sides = ["on the right of", "on the left of", "on", "above", "over", "below", "beneath", "under"]
    objects = ["dog", "car", "cat", "bus"]

    def row(count, i):
        one = count > 2 and i % 3 == 0
        middle = ["between", "among", "in the middle of"]
        relations = [middle[i % 9 // 3]] if one else [sides[int(rng.integers(8))] for _ in range(1 if count == 2 else 2)]
        found = detections(rng, objects[:count] if i % 2 else objects, most=7, least_score=0.51)
        if i % 2:  # all of them there
            boxes = [box(rng) for _ in range(count)]
            if i % 3 == 1:  # the first few well to the left of and above the last
                boxes = [[20.0 * j, 20.0 * j, 20.0 * j + 50, 20.0 * j + 50] for j in range(count)]
                relations = [["on the left of", "above", "over", "under"][int(rng.integers(4))] for _ in relations]
            found = [dict(label=o, score=round(0.99 - j / 100, 2), box_xyxy=b) for j, (o, b) in enumerate(zip(objects, boxes))]
            if i % 4 == 1:  # the last one again, less certain, and another label for the first one's box
                found += [dict(label=objects[0], score=0.7, box_xyxy=box(rng)),
                          dict(label=objects[count - 1], score=0.6, box_xyxy=[v + 0.001 for v in boxes[0]])]
        return dict(objs=objects[:count], relations=relations), found

    rows = [row(2 + i // 50, i) for i in range(150)]
    pictures = []
    for wanted, found in rows:
        try:
            right = script.cal_acc([wanted], load([found]), 0) == 100.0
        except KeyError as error:
            right = f"KeyError {error}"
        pictures.append(wanted | dict(detections=found, right=right))
    # A whole file in the original's order of levels, without the kind of pictures at which it stops.
    whole = [[p for p in pictures if len(p["objs"]) == count and len(p["relations"]) <= max(1, 5 - count)][:15] for count in (2, 3, 4)]
    whole = [p for level in whole for p in level]
    wanted = [dict(objs=p["objs"], relations=p["relations"]) for p in whole]
    predictions, third = load([p["detections"] for p in whole]), len(whole) // 3
    levels = [script.cal_acc(wanted[i * third:(i + 1) * third], predictions, level=i) for i in range(3)]
    return dict(pictures=pictures, whole=[pictures.index(p) for p in whole], levels=levels)


def opse(originals, rng):
    names = ["MINI_BATCH", "initial_samples", "METHOD", "_alpha", "get_UCB", "get_max_UCB", "update_model", "T",
             "initial_generations", "simulate"]
    runs = []
    for run in range(4):
        models = [f"m{i}" for i in range(2 + run)]
        scores = {m: [round(float(v), 3) for v in rng.beta(1 + i, 2, 97)] for i, m in enumerate(models)}
        drawn = dict.fromkeys(models, 0)

        class Draw:
            """Instead of a random prompt, a model's next one, so that both programs see the same scores."""

            @staticmethod
            def choice(keys):
                model, keys = keys[0].split("/")[0], keys
                drawn[model] += 1
                return keys[(drawn[model] - 1) % len(keys)]

        namespace = {"np": np, "random": Draw, "ALL_MODELS": models, "visor_data": {}, "nchosen": {m: [] for m in models},
                     "reses": {m: {f"{m}/{j}": {"score": s} for j, s in enumerate(scores[m])} for m in models}}
        functions((originals / "Why_Settle_for_Mid/PSE/opse.py").read_text(), names, namespace)
        namespace["simulate"]()
        chosen = np.array([namespace["nchosen"][m] for m in models]).argmax(0)
        means = [float(np.mean(namespace["visor_data"][m])) for m in models]
        runs.append(dict(scores=list(scores.values()), chosen=chosen.tolist(), means=means))
    return runs


def masks(rng):
    from pycocotools import mask as coco

    cases = []
    for _ in range(12):
        width, height = int(rng.integers(1, 60)), int(rng.integers(1, 60))
        parts = rectangles(rng, width, height)
        encoded = coco.encode(np.asfortranarray(mask_of(parts, width, height), dtype=np.uint8))
        cases.append(dict(parts=parts, mask=dict(size=encoded["size"], counts=encoded["counts"].decode())))
    return cases


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    originals = Path(sys.argv[1]).resolve()
    lacking = [name for name in COMMITS if not (originals / name).is_dir()]
    if lacking:
        raise SystemExit(f"{originals} has no {', '.join(lacking)}")
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module="<original>")
    folder = case_dir("rules")
    random.seed(0)
    for name, make in dict(pse=pse, pse_depth=pse_depth, visor=visor, geneval=geneval, t2i=t2i, t2i_depth=t2i_depth, hrs=hrs,
                           opse=opse).items():
        np.random.seed(0)
        write(folder, name, make(originals, np.random.default_rng(7)))
    write(folder, "masks", masks(np.random.default_rng(7)))
    write(folder, "case", dict(commits=COMMITS))


if __name__ == "__main__":
    main()
