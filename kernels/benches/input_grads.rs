//! Each operation and its input gradient at the shapes of SD1.5 and of the toybox: CPU milliseconds of
//! both, the least of several runs taken in turns, and their ratio. An argument picks the lines that
//! contain it; `--bf16` computes in that type.
//!
//! ```text
//! RAYON_NUM_THREADS=1 cargo bench -p prepose-kernels --no-default-features --bench input_grads
//! ```

use burn::tensor::{DType, Device, Distribution, Tensor};
use prepose_kernels::*;

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    let x = Tensor::<D>::random(shape, Distribution::Normal(0.0, 1.0), &Device::flex());
    match std::env::args().any(|argument| argument == "--bf16") {
        true => x.cast(DType::BF16),
        false => x,
    }
}

/// CPU seconds of this process; of the wall clock where the system does not tell.
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
    {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        let start = START.get_or_init(std::time::Instant::now);
        start.elapsed().as_secs_f64()
    }
}

fn seconds<T>(f: &dyn Fn() -> T) -> f64 {
    let start = cpu_seconds();
    std::hint::black_box(f());
    cpu_seconds() - start
}

fn report<T, U>(name: &str, forward: &dyn Fn() -> T, backward: &dyn Fn() -> U) {
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    if wanted.is_some_and(|part| !name.contains(&part)) {
        return;
    }
    let once = seconds(forward) + seconds(backward);
    let mut best = [f64::MAX; 2];
    for _ in 0..(0.5 / once) as usize + 3 {
        best[0] = best[0].min(seconds(forward));
        best[1] = best[1].min(seconds(backward));
    }
    let [forward, backward] = best.map(|seconds| seconds * 1e3);
    let ratio = backward / forward;
    println!("{name:40} {forward:9.3} {backward:9.3} {ratio:6.2}");
}

fn conv(batch: usize, cin: usize, cout: usize, size: usize, k: usize, stride: usize) {
    let x = random([batch, cin, size, size]);
    let w = random([cout, cin, k, k]);
    let grad = random([batch, cout, size / stride, size / stride]);
    report(
        &format!("conv {batch}x{cin}->{cout} {size}² k{k} s{stride}"),
        &|| conv2d(x.clone(), w.clone(), None, stride, k / 2),
        &|| conv2d_input_grad(grad.clone(), w.clone(), x.dims(), stride, k / 2),
    );
}

fn linears(tokens: usize, inputs: usize, outputs: usize) {
    let (x, w) = (random([1, tokens, inputs]), random([outputs, inputs]));
    let grads = [
        ("", random([1, tokens, outputs])),
        (
            " channels first",
            random([1, outputs, tokens]).swap_dims(1, 2),
        ),
    ];
    for (lie, grad) in grads {
        report(
            &format!("linear {tokens}x{inputs}->{outputs}{lie}"),
            &|| linear(x.clone(), w.clone(), None),
            &|| linear_input_grad(grad.clone(), w.clone()),
        );
    }
}

fn self_attention(batch: usize, heads: usize, n: usize, d: usize) {
    let rows = || random([batch, n, heads, d]).swap_dims(1, 2);
    let (q, k, v, grad) = (rows(), rows(), rows(), rows());
    let out = attention(q.clone(), k.clone(), v.clone());
    let args = || (grad.clone(), q.clone(), k.clone(), v.clone(), out.clone());
    report(
        &format!("self-attention {batch}x{heads}x{n}x{d}"),
        &|| attention(q.clone(), k.clone(), v.clone()),
        &|| {
            let (grad, q, k, v, out) = args();
            attention_input_grads(grad, q, k, v, out)
        },
    );
}

fn cross_attention(batch: usize, heads: usize, n: usize, m: usize, d: usize) {
    let rows = |n| random([batch, n, heads, d]).swap_dims(1, 2);
    let (q, k, v, grad) = (rows(n), rows(m), rows(m), rows(n));
    let grad_probs = random([batch, 1, n, m]);
    let args = || (Some(grad.clone()), q.clone(), k.clone(), v.clone());
    let name = format!("cross-attention {batch}x{heads}x{n}x{m}x{d}");
    let forward = || attention_with_probs(q.clone(), k.clone(), v.clone());
    report(&name, &forward, &|| {
        let (grad, q, k, v) = args();
        attention_query_grad(grad, None, q, k, v)
    });
    report(&format!("{name} probs"), &forward, &|| {
        let (grad, q, k, v) = args();
        attention_query_grad(grad, Some(grad_probs.clone()), q, k, v)
    });
}

fn elementwise(batch: usize, channels: usize, size: usize) {
    let shape = [batch, channels, size, size];
    let (x, grad, w, b) = (
        random(shape),
        random(shape),
        random([channels]),
        random([channels]),
    );
    for silu in [false, true] {
        let norm = GroupNorm {
            groups: 32.min(channels / 2),
            weight: w.clone(),
            bias: b.clone(),
            eps: 1e-5,
            silu,
        };
        report(
            &format!("group_norm {batch}x{channels} {size}² silu {silu}"),
            &|| group_norm(x.clone(), &norm),
            &|| group_norm_input_grad(grad.clone(), x.clone(), &norm),
        );
    }
    let doubled = random([batch, channels, 2 * size, 2 * size]);
    report(
        &format!("upsample {batch}x{channels} {size}²"),
        &|| upsample_nearest2x(x.clone()),
        &|| upsample_nearest2x_input_grad(doubled.clone()),
    );
    let tokens = |width| random([batch, size * size, width]);
    let (x, grad) = (tokens(channels), tokens(channels));
    report(
        &format!("layer_norm {batch}x{}x{channels}", size * size),
        &|| layer_norm(x.clone(), w.clone(), b.clone(), 1e-5),
        &|| layer_norm_input_grad(grad.clone(), x.clone(), w.clone(), 1e-5),
    );
    let (x, grad) = (tokens(8 * channels), tokens(4 * channels));
    report(
        &format!("geglu {batch}x{}x{}", size * size, 4 * channels),
        &|| geglu(x.clone()),
        &|| geglu_input_grad(grad.clone(), x.clone()),
    );
}

fn main() {
    let threads = rayon::current_num_threads();
    println!("{threads} threads: forward ms, gradient ms, ratio");
    // SD1.5 at 512², a batch of one.
    for [cin, cout, size, k, stride] in [
        [320, 320, 64, 3, 1],
        [640, 640, 32, 3, 1],
        [1280, 1280, 16, 3, 1],
        [1280, 1280, 8, 3, 1],
        [320, 320, 64, 3, 2],
        [640, 640, 32, 3, 2],
        [4, 320, 64, 3, 1],
        [960, 320, 64, 1, 1],
        [1280, 1280, 16, 1, 1],
    ] {
        conv(1, cin, cout, size, k, stride);
    }
    for [tokens, width] in [[4096, 320], [1024, 640], [256, 1280]] {
        linears(tokens, width, width);
        linears(tokens, width, 8 * width);
        linears(tokens, 4 * width, width);
    }
    for [n, d] in [[4096, 40], [1024, 80], [256, 160], [64, 160]] {
        self_attention(1, 8, n, d);
        cross_attention(1, 8, n, 77, d);
    }
    for [channels, size] in [[320, 64], [640, 32], [1280, 16]] {
        elementwise(1, channels, size);
    }
    // The toybox.
    for batch in [1, 8, 32] {
        for [width, size] in [[48, 16], [96, 8], [128, 4]] {
            conv(batch, width, width, size, 3, 1);
            conv(batch, width, width, size, 3, 2);
            linears(batch * size * size, width, width);
            linears(batch * size * size, width, 8 * width);
            self_attention(batch, 4, size * size, width / 4);
            cross_attention(batch, 4, size * size, 77, width / 4);
            elementwise(batch, width, size);
        }
    }
}
