"""`fixtures/noise/`: torch.randn on the CPU, and Philox normals as CUDA and A1111 make them."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from common import generator, write_case

SEEDS = [0, 1, 42, 2**31, 2**32 - 1, 2**32, 2**32 + 42, 2**63 - 1, -1]
# Below 16 elements torch draws pairs in f64; from 16 on it fills blocks of 16 and redoes the last 16 of an odd size.
SIZES = [1, 2, 3, 4, 15, 16, 17, 18, 31, 32, 33, 40, 1000]
LARGE = 16384  # latents of a 512×512 picture
# Draws from one generator: small odd draws leave a cached second normal behind, which larger draws must not touch.
SEQUENCE = [1, 3, 16, 17, 2, 40, 5, 64, 1, 1, 33, 4]
SCALAR_SIZES = [1, 15, 16, 17, 40, 1000]


def draw(seed, size, dtype=torch.float32):
    return torch.randn(size, generator=generator(seed), dtype=dtype)


def cpu_tensors():
    tensors = {f"cpu/seed{seed}/size{size}": draw(seed, size) for seed in SEEDS for size in SIZES}
    for seed in (0, 42):
        tensors[f"cpu/seed{seed}/size{LARGE}"] = draw(seed, LARGE)
    for seed in (0, 1, 2**32 - 1):
        rng = generator(seed)
        for i, size in enumerate(SEQUENCE):
            tensors[f"cpu_sequence/seed{seed}/{i:02}"] = torch.randn(size, generator=rng)
    # What a diffusers pipeline in half precision draws: not the rounded f32 noise.
    for dtype, label in ((torch.float16, "f16"), (torch.bfloat16, "bf16")):
        for size in (3, 16, 40, 1000):
            tensors[f"cpu_{label}/seed0/size{size}"] = draw(0, size, dtype)
    return tensors


def scalar_tensors():
    """The same draws by torch's portable code (no AVX2: Apple and ARM machines), which rounds differently."""
    code = (
        "import sys, torch; from cases.noise import *; "
        "assert torch.backends.cpu.get_cpu_capability() == 'DEFAULT'; "
        "torch.save({f'cpu_portable/seed{s}/size{n}': draw(s, n) for s in (0, 42) for n in SCALAR_SIZES}, sys.argv[1])"
    )
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "portable.pt"
        environment = dict(os.environ, ATEN_CPU_CAPABILITY="default")
        reference = Path(__file__).resolve().parents[1]
        subprocess.run([sys.executable, "-c", code, str(path)], cwd=reference, env=environment, check=True)
        return torch.load(path)


def philox4x32_10(counter, key):
    """Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3". `counter` [4, n] and `key` [2, n], uint32."""
    counter = [c.astype(np.uint64) for c in counter]
    key = [k.astype(np.uint64) for k in key]
    mask = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        product0 = counter[0] * np.uint64(0xD2511F53)
        product1 = counter[2] * np.uint64(0xCD9E8D57)
        counter = [
            (product1 >> np.uint64(32)) ^ counter[1] ^ key[0],
            product1 & mask,
            (product0 >> np.uint64(32)) ^ counter[3] ^ key[1],
            product0 & mask,
        ]
        key = [(key[0] + np.uint64(0x9E3779B9)) & mask, (key[1] + np.uint64(0xBB67AE85)) & mask]
    return np.stack(counter).astype(np.uint32)


def philox_randn(seed, size, draw_index):
    """Element i of the n-th draw has counter (n, 0, i, 0): one CUDA thread per element, first of its four normals."""
    zeros = np.zeros(size, np.uint32)
    counter = np.stack([zeros + np.uint32(draw_index), zeros, np.arange(size, dtype=np.uint32), zeros])
    key = np.stack([zeros + np.uint32(seed & 0xFFFFFFFF), zeros + np.uint32((seed >> 32) & 0xFFFFFFFF)])
    bits = philox4x32_10(counter, key)
    # curand's Box-Muller: uniforms in (0, 1], first normal is the sine one.
    scale = np.float64(np.float32(2.0**-32))
    u = bits[0] * scale + scale / 2
    v = bits[1] * (scale * 2 * np.pi) + scale * np.pi
    return torch.from_numpy((np.sqrt(-2.0 * np.log(u)) * np.sin(v)).astype(np.float32))


def philox_tensors():
    tensors = {}
    for seed in (0, 1, 42, 2**32 - 1, 2**32 + 42, 2**63 - 1):
        for size in (1, 4, 17, 1000):
            for n in range(2):
                tensors[f"philox/seed{seed}/size{size}/draw{n}"] = philox_randn(seed, size, n)
    known = torch.tensor([-0.92466259, -0.42534415, -2.6438457, 0.14518388])
    torch.testing.assert_close(tensors["philox/seed0/size4/draw0"], known, rtol=1e-6, atol=1e-6)
    return tensors


def make():
    info = {
        "capability": torch.backends.cpu.get_cpu_capability(),
        "seeds": SEEDS,
        "sizes": SIZES + [LARGE],
        "sequence": SEQUENCE,
    }
    if info["capability"] not in ("AVX2", "AVX512"):
        raise SystemExit("the noise fixture needs a CPU with AVX2: torch rounds differently without it")
    write_case("noise", cpu_tensors() | scalar_tensors() | philox_tensors(), info)
