"""The operations of `benches/ops.rs` in PyTorch, with the same shapes and the same clocks.

    python kernels/benches/torch_ops.py [threads]

Prints wall and CPU milliseconds, the least of several runs.
"""

import sys
import time

import torch
import torch.nn.functional as F

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
torch.set_num_threads(THREADS)
torch.set_grad_enabled(False)


def report(name, flops, f):
    runs = max(5, min(100, int(1e9 / max(flops, 1))))
    f()
    wall = cpu = float("inf")
    for _ in range(runs):
        t, c = time.perf_counter(), time.process_time()
        f()
        wall = min(wall, time.perf_counter() - t)
        cpu = min(cpu, time.process_time() - c)
    print(f"{name:44} {wall * 1e3:10.3f} {cpu * 1e3:10.3f}", flush=True)


def linear(m, k, n):
    x, w, b = torch.randn(1, m, k), torch.randn(n, k), torch.randn(n)
    report(f"linear {m}x{k}->{n}", 2 * m * k * n, lambda: F.linear(x, w, b))


def conv(batch, cin, cout, size, k, stride):
    x = torch.randn(batch, cin, size, size)
    w, b = torch.randn(cout, cin, k, k), torch.randn(cout)
    flops = 2 * batch * cin * cout * k * k * (size // stride) ** 2
    name = f"conv {batch}x{cin}->{cout} {size}² k{k} s{stride}"
    report(name, flops, lambda: F.conv2d(x, w, b, stride, k // 2))


def attention(batch, heads, n, m, d):
    q = torch.randn(batch, n, heads, d).transpose(1, 2)
    k, v = (torch.randn(batch, m, heads, d).transpose(1, 2) for _ in range(2))
    flops = 4 * batch * heads * n * m * d
    name = f"attention {batch}x{heads}x{n}x{m}x{d}"
    report(name, flops, lambda: F.scaled_dot_product_attention(q, k, v))


def group_norm(batch, channels, size):
    x, w, b = torch.randn(batch, channels, size, size), torch.randn(channels), torch.randn(channels)
    name = f"group_norm+silu {batch}x{channels} {size}²"
    report(name, 16 * x.numel(), lambda: F.silu(F.group_norm(x, 32, w, b, 1e-5)))


def layer_norm(m, c):
    x, w, b = torch.randn(1, m, c), torch.randn(c), torch.randn(c)
    report(f"layer_norm {m}x{c}", 8 * m * c, lambda: F.layer_norm(x, (c,), w, b))


def geglu(m, c):
    x = torch.randn(1, m, 2 * c)

    def run():
        a, b = x.chunk(2, dim=-1)
        return a * F.gelu(b)

    report(f"geglu {m}x{c}", 40 * m * c, run)


print(f"torch {torch.__version__}, {THREADS} threads: wall ms, cpu ms")
for shape in [(1024, 1024, 1024), (2048, 2048, 2048), (2048, 5120, 1280), (8192, 320, 320), (512, 128, 1024), (32, 256, 1024), (2, 128, 512)]:
    linear(*shape)
for shape in [
    (2, 320, 320, 64, 3, 1),
    (2, 320, 320, 64, 3, 2),
    (2, 1280, 1280, 8, 3, 1),
    (2, 128, 128, 16, 3, 1),
    (2, 256, 256, 4, 3, 1),
    (2, 640, 320, 64, 1, 1),
    (2, 640, 640, 32, 3, 1),
    (2, 1280, 1280, 16, 3, 1),
    (1, 512, 512, 64, 3, 1),
    (1, 256, 256, 128, 3, 1),
    (1, 128, 128, 256, 3, 1),
]:
    conv(*shape)
for shape in [
    (2, 8, 4096, 4096, 40),
    (2, 8, 1024, 1024, 80),
    (2, 8, 4096, 77, 40),
    (1, 1, 4096, 4096, 512),
    (2, 4, 256, 256, 32),
    (2, 4, 256, 77, 32),
]:
    attention(*shape)
group_norm(2, 320, 64)
group_norm(2, 128, 16)
group_norm(1, 128, 256)
layer_norm(8192, 320)
geglu(8192, 1280)
