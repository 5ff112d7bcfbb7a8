"""The products and convolutions of `benches/products.rs` in PyTorch: cuBLAS and cuDNN, which may try their ways first.

    python kernels/benches/torch_products.py f16

Twenty runs are captured as a graph and launched at once. Prints milliseconds and tera-operations a second; f32 as TF32, as
prepose's own products in f32 are on such devices.
"""

import sys
import time

import torch
import torch.nn.functional as F

RUNS = 20
DTYPE = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[sys.argv[1] if len(sys.argv) > 1 else "f16"]
torch.set_grad_enabled(False)
torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True

LINEAR = [
    (8192, 320, 320), (8192, 320, 2560), (8192, 1280, 320), (2048, 640, 640), (2048, 640, 5120), (2048, 2560, 640),
    (512, 1280, 1280), (512, 1280, 10240), (512, 5120, 1280), (154, 768, 320), (2, 1280, 1280), (77, 40, 56),
]  # fmt: skip
CONV = [
    (2, 64, 320, 320, 1), (2, 64, 960, 320, 1), (2, 64, 320, 320, 2), (2, 32, 640, 640, 1), (2, 32, 1920, 640, 1),
    (2, 16, 1280, 1280, 1), (2, 16, 2560, 1280, 1), (2, 8, 1280, 1280, 1), (1, 128, 512, 512, 1), (1, 512, 128, 128, 1),
    (2, 64, 4, 320, 1), (2, 64, 320, 4, 1), (1, 13, 40, 24, 1),
]  # fmt: skip


def random(*shape):
    x = torch.randn(shape, device="cuda", dtype=DTYPE)
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x


def report(name, operations, run):
    for _ in range(3):
        run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(RUNS):
            run()
    least = float("inf")
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        least = min(least, (time.perf_counter() - start) / RUNS)
    print(f"| {name} | {least * 1e3:.4f} | {operations / least * 1e-12:.1f} |", flush=True)


print("| | ms | TFLOP/s |\n| --- | ---: | ---: |")
for m, k, n in LINEAR:
    x, weight = random(m, k), random(n, k)
    report(f"linear {m}×{k}→{n}", 2 * m * k * n, lambda x=x, weight=weight: F.linear(x, weight))
for batch, side, inputs, outputs, stride in CONV:
    x, weight = random(batch, inputs, side, side), random(outputs, inputs, 3, 3)
    out = -(-side // stride)
    name = f"conv {batch}×{inputs}→{outputs}, {side}²" + (", stride 2" if stride > 1 else "")
    report(
        name,
        2 * batch * out * out * inputs * outputs * 9,
        lambda x=x, weight=weight, stride=stride: F.conv2d(x, weight, stride=stride, padding=1),
    )
