"""`fixtures/quality/`: measures of sets of features by pytorch-fid, torchmetrics, prdc, vendi-score and rke-score, and NumPy's archives."""

import numpy as np
import torch
from common import case_dir, write_json

# Rows of the first set, rows of the second, features, scale and shift of the second.
SETS = [(200, 150, 16, 1.2, 0.3), (60, 60, 16, 1.0, 0.0), (40, 30, 64, 0.7, -0.2)]
# The width of RKE's kernel.
SIGMA = 4.0


def normal(seed, count):
    """Normal numbers from splitmix64 by Box and Muller, in f32; the test makes the same."""
    mask = (1 << 64) - 1
    uniform = []
    state = seed
    for _ in range(count + count % 2):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        uniform.append(((z ^ (z >> 31)) >> 11) * 2.0**-53)
    a, b = np.array(uniform).reshape(-1, 2).T
    r = np.sqrt(-2.0 * np.log(1.0 - a))
    pairs = np.stack([r * np.cos(2 * np.pi * b), r * np.sin(2 * np.pi * b)], axis=1)
    return pairs.reshape(-1)[:count]


def matrix(seed, rows, columns, scale=1.0, shift=0.0):
    # In f32, as features are.
    return (scale * normal(seed, rows * columns).reshape(rows, columns) + shift).astype(np.float32).astype(np.float64)


def fid(x, y):
    from pytorch_fid.fid_score import calculate_frechet_distance

    moments = [(np.mean(f, axis=0), np.cov(f, rowvar=False)) for f in (x, y)]
    return float(calculate_frechet_distance(*moments[0], *moments[1]))


def nuclear(x, y):
    """The same without a square root of a matrix: for fewer rows than columns the package's loses digits."""
    xc, yc = x - x.mean(0), y - y.mean(0)
    root = np.linalg.svd(xc @ yc.T, compute_uv=False).sum() / np.sqrt((len(x) - 1) * (len(y) - 1))
    trace = (xc**2).sum() / (len(x) - 1) + (yc**2).sum() / (len(y) - 1)
    return float(((x.mean(0) - y.mean(0)) ** 2).sum() + trace - 2 * root)


def kid(x, y):
    from torchmetrics.image.kid import poly_mmd

    # It takes both sets for equally large.
    count = min(len(x), len(y))
    x, y = x[:count], y[:count]
    return float(poly_mmd(torch.tensor(y), torch.tensor(x), degree=3, gamma=None, coef=1.0))


def inception_score(logits, splits):
    from torchmetrics.image.inception import InceptionScore

    metric = InceptionScore(feature=torch.nn.Identity(), splits=splits)
    metric.features = [torch.tensor(logits)]
    metric._update_count = 1
    shuffle, torch.randperm = torch.randperm, lambda n, **_: torch.arange(n)
    try:
        mean, deviation = metric.compute()
    finally:
        torch.randperm = shuffle
    # The published deviation divides by the number of splits, theirs by one less.
    deviation = float(deviation) * np.sqrt((splits - 1) / splits) if splits > 1 else 0.0
    return {"splits": splits, "mean": float(mean), "deviation": deviation}


def cmmd(x, y):
    """The authors' formula, in f64: their code is on GitHub only, and computes in f32."""
    x, y = (f / np.linalg.norm(f, axis=1, keepdims=True) for f in (x, y))

    def kernel(a, b):
        square = ((a[:, None] - b[None]) ** 2).sum(-1)
        return np.exp(-square / (2 * 10.0**2)).mean()

    return float(1000 * (kernel(x, x) + kernel(y, y) - 2 * kernel(x, y)))


def rke(x):
    from rke_score import RKE

    # The package's function of this name gives the reciprocal of the number of modes.
    found = RKE(kernel_bandwidth=[SIGMA]).compute_rke_mc_frobenius_norm(x)
    return float(1.0 / found[SIGMA])


def case(index, sizes):
    from prdc import compute_prdc
    from vendi_score import vendi

    rows, others, columns, scale, shift = sizes
    x = matrix(2 * index + 1, rows, columns)
    y = matrix(2 * index + 2, others, columns, scale, shift)
    expected = {"nuclear": nuclear(x, y), "kid": kid(x, y), "cmmd": cmmd(x, y)}
    if min(rows, others) > columns:
        expected["fid"] = fid(x, y)
    for k in (3, 5):
        found = compute_prdc(real_features=x, fake_features=y, nearest_k=k)
        expected[f"prdc{k}"] = {name: float(value) for name, value in found.items()}
    expected["vendi"] = float(vendi.score_dual(x, normalize=True) if rows > columns else vendi.score_X(x))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    values = np.linalg.eigvalsh(unit @ unit.T / rows)
    values = values[values > 1e-14]
    assert abs(np.exp(-(values * np.log(values)).sum()) - expected["vendi"]) < 1e-9 * expected["vendi"]
    expected["rke"] = rke(x)
    return {"rows": rows, "others": others, "columns": columns, "scale": scale, "shift": shift, "expected": expected}


def make():
    from importlib.metadata import version

    path = case_dir("quality")
    logits = 2 * matrix(3, 100, 10)
    packages = ["numpy", "scipy", "torch", "pytorch-fid", "torchmetrics", "prdc", "vendi-score", "rke-score"]
    info = {
        "packages": {name: version(name) for name in packages},
        "sigma": SIGMA,
        "sets": [case(i, sizes) for i, sizes in enumerate(SETS)],
        "inception": [inception_score(logits, splits) for splits in (1, 10)],
    }
    write_json(path / "cases.json", info)
    sigma = np.eye(5) * 1.5
    mu = np.linspace(0, 1, 5)
    np.savez_compressed(path / "packed.npz", mu=mu, sigma=sigma)
    np.savez(path / "stored.npz", sigma=sigma, mu=mu)
