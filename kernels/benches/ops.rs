//! The operations at the shapes of SD1.5 and of the toybox: fast path in f32 and in bf16, plain reference in f32, wall and CPU
//! milliseconds, the least of several runs. `torch_ops.py` does the same in PyTorch. `--fast` leaves out the
//! references; another argument chooses operations by what is in their name.
//!
//! ```text
//! RAYON_NUM_THREADS=2 cargo bench -p prepose-kernels --no-default-features
//! RAYON_NUM_THREADS=1 cargo bench -p prepose-kernels --no-default-features --bench ops -- --fast conv
//! ```

use burn::tensor::{DType, Device, Distribution, Tensor};
use prepose_kernels as fast;
use prepose_kernels::plain;
use std::time::Instant;

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), &Device::flex())
}

/// Least wall and CPU seconds of several runs of about a billion operations together.
fn time<T>(operations: usize, f: &dyn Fn() -> T) -> (f64, f64) {
    f();
    let mut best = (f64::MAX, f64::MAX);
    for _ in 0..(1_000_000_000 / operations.max(1)).clamp(3, 100) {
        let (wall, cpu) = (Instant::now(), cpu_seconds());
        std::hint::black_box(f());
        best.0 = best.0.min(wall.elapsed().as_secs_f64());
        best.1 = best.1.min(cpu_seconds() - cpu);
    }
    best
}

/// CPU time of this process; zero where the system does not tell.
fn cpu_seconds() -> f64 {
    #[cfg(unix)]
    {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the pointer is valid for the call.
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    }
    #[cfg(not(unix))]
    0.0
}

/// Times `fast` in both types, in turns, and the reference.
fn report<T>(name: &str, operations: usize, fast: [&dyn Fn() -> T; 2], plain: &dyn Fn() -> T) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |argument: &String| argument.starts_with('-') || name.contains(argument);
    if !arguments.iter().all(wanted) {
        return;
    }
    let rounds = fast.map(|fast| [time(operations, fast), time(operations, fast)]);
    let [wide, narrow] = rounds.map(|[a, b]| (a.0.min(b.0), a.1.min(b.1)));
    print!(
        "{name:44} {:9.3} {:9.3} {:9.3} {:9.3} {:6.2}",
        wide.0 * 1e3,
        wide.1 * 1e3,
        narrow.0 * 1e3,
        narrow.1 * 1e3,
        narrow.1 / wide.1
    );
    if !arguments.iter().any(|argument| argument == "--fast") {
        let plain = time(operations, plain);
        print!(" {:9.3} {:9.3}", plain.0 * 1e3, plain.1 * 1e3);
    }
    println!();
}

fn narrow<const D: usize>(x: &Tensor<D>) -> Tensor<D> {
    x.clone().cast(DType::BF16)
}

fn linear(m: usize, k: usize, n: usize) {
    let (x, w, b) = (random([1, m, k]), random([n, k]), random([n]));
    let args = || (x.clone(), w.clone(), Some(b.clone()));
    let halves = (narrow(&x), narrow(&w), narrow(&b));
    report(
        &format!("linear {m}x{k}->{n}"),
        2 * m * k * n,
        [
            &|| {
                let (x, w, b) = args();
                fast::linear(x, w, b)
            },
            &|| {
                let (x, w, b) = halves.clone();
                fast::linear(x, w, Some(b))
            },
        ],
        &|| {
            let (x, w, b) = args();
            plain::linear(x, w, b)
        },
    );
}

fn conv(batch: usize, cin: usize, cout: usize, size: usize, k: usize, stride: usize) {
    let x = random([batch, cin, size, size]);
    let (w, b) = (random([cout, cin, k, k]), random([cout]));
    let args = || (x.clone(), w.clone(), Some(b.clone()));
    let halves = (narrow(&x), narrow(&w), narrow(&b));
    report(
        &format!("conv {batch}x{cin}->{cout} {size}² k{k} s{stride}"),
        2 * batch * cin * cout * k * k * (size / stride).pow(2),
        [
            &|| {
                let (x, w, b) = args();
                fast::conv2d(x, w, b, stride, k / 2)
            },
            &|| {
                let (x, w, b) = halves.clone();
                fast::conv2d(x, w, Some(b), stride, k / 2)
            },
        ],
        &|| {
            let (x, w, b) = args();
            plain::conv2d(x, w, b, stride, k / 2)
        },
    );
}

fn attention(batch: usize, heads: usize, n: usize, m: usize, d: usize) {
    let rows = |n| random([batch, n, heads, d]).swap_dims(1, 2);
    let (q, k, v) = (rows(n), rows(m), rows(m));
    let halves = (narrow(&q), narrow(&k), narrow(&v));
    report(
        &format!("attention {batch}x{heads}x{n}x{m}x{d}"),
        4 * batch * heads * n * m * d,
        [
            &|| fast::attention(q.clone(), k.clone(), v.clone()),
            &|| fast::attention(halves.0.clone(), halves.1.clone(), halves.2.clone()),
        ],
        &|| plain::attention(q.clone(), k.clone(), v.clone()),
    );
}

fn group_norm(batch: usize, channels: usize, size: usize) {
    let x = random([batch, channels, size, size]);
    let norm = fast::GroupNorm {
        groups: 32,
        weight: random([channels]),
        bias: random([channels]),
        eps: 1e-5,
        silu: true,
    };
    let half = narrow(&x);
    report(
        &format!("group_norm+silu {batch}x{channels} {size}²"),
        16 * batch * channels * size * size,
        [&|| fast::group_norm(x.clone(), &norm), &|| {
            fast::group_norm(half.clone(), &norm)
        }],
        &|| plain::group_norm(x.clone(), &norm),
    );
}

fn main() {
    // As the program does.
    fast::keep_freed_memory();
    let threads = rayon::current_num_threads();
    println!(
        "{threads} threads: f32 wall ms, cpu ms, bf16 wall ms, cpu ms, ratio, plain wall ms, cpu ms"
    );
    for [m, k, n] in [
        [1024, 1024, 1024],
        [2048, 2048, 2048],
        [2048, 1280, 1280],
        [2048, 1280, 10240],
        [2048, 5120, 1280],
        [8192, 320, 320],
        [8192, 320, 2560],
        [8192, 1280, 320],
        [8192, 640, 640],
        [8192, 640, 5120],
        [8192, 2560, 640],
        [77, 1280, 5120],
        [77, 5120, 1280],
        [154, 1280, 5120],
        [154, 5120, 1280],
        [512, 128, 1024],
        [32, 256, 1024],
        [2, 128, 512],
    ] {
        linear(m, k, n);
    }
    for [batch, cin, cout, size, k, stride] in [
        [2, 320, 320, 64, 3, 1],
        [2, 320, 320, 64, 3, 2],
        [2, 1280, 1280, 8, 3, 1],
        [2, 128, 128, 16, 3, 1],
        [2, 256, 256, 4, 3, 1],
        [2, 640, 320, 64, 1, 1],
        [2, 640, 640, 32, 3, 1],
        [2, 1280, 1280, 16, 3, 1],
        [1, 512, 512, 64, 3, 1],
        [1, 256, 256, 128, 3, 1],
        [1, 128, 128, 256, 3, 1],
    ] {
        conv(batch, cin, cout, size, k, stride);
    }
    for [batch, heads, n, m, d] in [
        [2, 8, 4096, 4096, 40],
        [2, 8, 1024, 1024, 80],
        [2, 8, 4096, 77, 40],
        [1, 1, 4096, 4096, 512],
        [2, 4, 256, 256, 32],
        [2, 4, 256, 77, 32],
    ] {
        attention(batch, heads, n, m, d);
    }
    group_norm(2, 320, 64);
    group_norm(2, 128, 16);
    group_norm(1, 128, 256);
    let (x, w, b) = (random([1, 8192, 320]), random([320]), random([320]));
    let half = narrow(&x);
    report(
        "layer_norm 8192x320",
        8 * 8192 * 320,
        [
            &|| fast::layer_norm(x.clone(), w.clone(), b.clone(), 1e-5),
            &|| fast::layer_norm(half.clone(), w.clone(), b.clone(), 1e-5),
        ],
        &|| plain::layer_norm(x.clone(), w.clone(), b.clone(), 1e-5),
    );
    let x = random([1, 8192, 2560]);
    let half = narrow(&x);
    report(
        "geglu 8192x1280",
        40 * 8192 * 1280,
        [&|| fast::geglu(x.clone()), &|| fast::geglu(half.clone())],
        &|| plain::geglu(x.clone()),
    );
}
