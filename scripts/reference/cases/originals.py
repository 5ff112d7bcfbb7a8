"""Parts of programs that somebody else wrote, and random pictures for them; for `rules.py`."""

import ast
import json
import types

import numpy as np


def functions(source, names, namespace):
    """Defines those functions, classes and constants of a program in `namespace`, without running the rest of it."""
    found = set()
    for node in ast.parse(source).body:
        targets = getattr(node, "targets", [])
        name = getattr(node, "name", None) or (getattr(targets[0], "id", None) if len(targets) == 1 else None)
        if name in names:
            found.add(name)
            exec(compile(ast.Module([node], []), "<original>", "exec"), namespace)
    if found != set(names):
        raise SystemExit(f"the original has no {', '.join(set(names) - found)}")
    return types.SimpleNamespace(**namespace)


def notebook(path):
    """The code of a notebook, without its shell commands."""
    cells = json.loads(path.read_text())["cells"]
    return "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code" and "!pip" not in "".join(c["source"]))


# Random pictures. Coordinates have few digits, so that every reader of JSON gets the same number.


def number(rng, low, high):
    return round(float(rng.uniform(low, high)), 2)


def box(rng, size=479):
    """Often with edges on a coarse grid, so that edges touch and centres are equal."""
    if rng.random() < 0.4:
        x0, y0 = (float(rng.integers(0, 8) * 40) for _ in "xy")
        return [x0, y0, x0 + float(rng.integers(1, 5) * 40), y0 + float(rng.integers(1, 5) * 40)]
    x, y = sorted(number(rng, 0, size) for _ in "01"), sorted(number(rng, 0, size) for _ in "01")
    return [x[0], y[0], x[1] + 1, y[1] + 1]


def near_boundary(rng, a):
    """A box whose centre or edges lie at or next to those of another."""
    shift = rng.choice([0.0, 0.01, -0.01, 10.0, -10.0, 149.99, 150.0, 150.01, 200.0])
    other = rng.choice([0.0, 0.0, 5.0, -160.0, 150.0])
    x, y = (shift, other) if rng.random() < 0.5 else (other, shift)
    moved = [a[0] + x, a[1] + y, a[2] + x, a[3] + y]
    corner = min(moved[0], 0), min(moved[1], 0)
    return [round(float(v), 2) for v in (moved[0] - corner[0], moved[1] - corner[1], moved[2] - corner[0], moved[3] - corner[1])]


def detections(rng, labels, most=5, least_score=0.05):
    """[{label, score, box_xyxy}], best first and without equal scores, as detectors give them."""
    found = []
    for _ in range(int(rng.integers(0, most + 1))):
        near = found and rng.random() < 0.4
        found.append(near_boundary(rng, found[-1]) if near else box(rng))
    scores = sorted(rng.choice(np.arange(int(least_score * 100), 100), len(found), replace=False), reverse=True)
    label = lambda: labels[int(rng.integers(len(labels)))]
    return [dict(label=label(), score=float(s) / 100, box_xyxy=b) for s, b in zip(scores, found)]


def rectangles(rng, width, height):
    def one():
        x, y = sorted(rng.integers(0, width + 1, 2)), sorted(rng.integers(0, height + 1, 2))
        return [int(x[0]), int(y[0]), int(x[1]), int(y[1])]

    return [one() for _ in range(int(rng.integers(1, 4)))]


def mask_of(parts, width, height):
    mask = np.zeros((height, width), dtype=bool)
    for x0, y0, x1, y1 in parts:
        mask[y0:y1, x0:x1] = True
    return mask
