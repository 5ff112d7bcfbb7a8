//! Memory that runs short, and UNet calls that are captured.

use std::process::{Command, Output};

use burn::tensor::Tensor;
use prepose::device;
use prepose::engine::{Blueprint, Engine};
use prepose::request::{Dtype, ModelRequest, PromptSwitch, Request};
use prepose::sampling::denoise::{Hook, HookError, State};
use prepose_models::unet::GraphUse;

fn model() -> ModelRequest {
    ModelRequest::new("toybox", Dtype::F32)
}

fn engine() -> Engine {
    let device = device::open("flex".parse().unwrap()).unwrap();
    let model = model();
    Blueprint::open(&model)
        .unwrap()
        .load(&model, &device)
        .unwrap()
}

fn request(engine: &Engine, prompt: &str, steps: usize) -> Request {
    Request {
        steps,
        ..engine.blueprint().request(prompt, &model())
    }
}

fn values(latents: Tensor<4>) -> Vec<f32> {
    latents.into_data().iter().collect()
}

#[test]
fn captured_calls_draw_the_same_pictures() {
    let plain = engine().with_graphs(GraphUse::Off);
    let captured = engine().with_graphs(GraphUse::Forced);
    let dog = request(&plain, "a dog to the left of a cat", 5);
    let switched = Request {
        switch: Some(PromptSwitch {
            to: "a red cube below a green ball".into(),
            at: 2,
        }),
        ..dog.clone()
    };
    // Back and forth at every step.
    let alternating = request(&plain, "a [red|green] ball", 6);
    let unguided = Request {
        guidance_scale: 1.0,
        ..dog.clone()
    };
    let two = [
        dog.clone(),
        Request {
            seed: 9,
            ..dog.clone()
        },
    ];
    // The same graph is used again, then for other prompts, then others are captured in its place.
    let batches = [
        vec![dog.clone()],
        vec![Request {
            seed: 3,
            ..dog.clone()
        }],
        vec![switched],
        vec![alternating],
        vec![unguided],
        two.to_vec(),
        vec![dog],
    ];
    for batch in &batches {
        let expected = values(plain.latents(batch, &mut []).unwrap());
        let got = values(captured.latents(batch, &mut []).unwrap());
        assert!(captured.is_captured() && !plain.is_captured());
        assert_eq!(got, expected, "{batch:?}");
    }
}

#[test]
fn what_only_runs_again_is_not_captured() {
    let engine = engine();
    let request = request(&engine, "a dog", 14);
    engine.latents(&[request], &mut []).unwrap();
    assert!(!engine.is_captured());
}

/// Fails as CubeCL does when an allocation is refused.
struct Greedy;

impl Hook for Greedy {
    fn before_unet(&mut self, state: &mut State) -> Result<(), HookError> {
        if state.step == 1 {
            panic!("out of device memory allocating 1073741824 bytes\n  0: backtrace");
        }
        Ok(())
    }
}

#[test]
fn an_allocation_that_is_refused_is_an_error_with_a_way_out() {
    prepose::memory::silence_panics();
    let engine = engine();
    let one = request(&engine, "a dog to the left of a cat", 3);
    let four: Vec<_> = (0..4)
        .map(|seed| Request {
            seed,
            ..one.clone()
        })
        .collect();
    let error = engine.generate(&four, &mut [&mut Greedy]).err().unwrap();
    let short = error.out_of_memory().expect("want of memory");
    assert_eq!(short.shortage.bytes, Some(1 << 30));
    let text = error.to_string();
    let pictures = format!("4 pictures of {0}×{0}", one.width);
    for part in ["flex", &*pictures, "1.0 GiB", "--batch 2", "--size"] {
        // Without the text, which would silence the panic.
        assert!(text.contains(part), "it does not say {part:?}");
    }
    // Nothing is broken by it.
    let made = engine.generate(&four[..2], &mut []).unwrap();
    assert_eq!(made.pictures.len(), 2);
}

#[test]
fn other_panics_stay_panics() {
    struct Broken;
    impl Hook for Broken {
        fn before_unet(&mut self, _: &mut State) -> Result<(), HookError> {
            panic!("a bug")
        }
    }
    let engine = engine();
    let one = request(&engine, "a dog", 2);
    let run = || {
        engine
            .generate(std::slice::from_ref(&one), &mut [&mut Broken])
            .map(|_| ())
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
}

/// Draws "a dog" on the CPU, in at most so many KiB of address space.
fn prepose(limit: Option<u64>, arguments: &[&str]) -> Output {
    let limit = limit.map_or(String::new(), |limit| format!("ulimit -v {limit} && "));
    // One arena and two threads: what they reserve counts as well, and grows with the machine.
    Command::new("sh")
        .args([
            "-c",
            &format!("{limit}exec \"$0\" \"$@\""),
            env!("CARGO_BIN_EXE_prepose"),
        ])
        .args(["generate", "a dog", "--device", "flex"])
        .args(arguments)
        .env("RAYON_NUM_THREADS", "2")
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn estimates_are_about_right() {
    // Small pictures take little besides what every program takes.
    for (size, batch) in [("512", "1"), ("256", "4")] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().to_str().unwrap();
        let seeds = if batch == "1" { "0" } else { "0-3" };
        let made = prepose(
            None,
            &[
                "--size", size, "--seeds", seeds, "-b", batch, "--steps", "1", "--json", "-o", out,
            ],
        );
        assert!(made.status.success(), "{}", said(&made));
        let line = String::from_utf8_lossy(&made.stdout);
        let line: serde_json::Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
        // Where the system counts peaks.
        if let Some(peak) = line["memory"]["work_peak"].as_f64() {
            let estimate = line["memory"]["work_estimate"].as_f64().unwrap();
            println!("{size}, {batch} at a time: {estimate:.2e} estimated, {peak:.2e} measured");
            let ratio = estimate / peak;
            assert!((0.5..2.0).contains(&ratio), "{size}, {batch}: {ratio}");
        }
    }
}

/// KiB of address space that the program takes for a small picture, and so many MiB more.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn limit(more: u64) -> Option<u64> {
    // Less than any machine has, so that it is what leaves the least.
    const LARGE: u64 = 3 << 19;
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let made = prepose(
        Some(LARGE),
        &["--steps", "1", "--seed", "0", "--json", "-o", out],
    );
    assert!(made.status.success(), "{}", said(&made));
    let line: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    let free = line["memory"]["free"].as_u64().unwrap() >> 10;
    Some(LARGE - free + (more << 10))
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn a_host_without_memory_says_so_and_keeps_what_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let limit = limit(110);
    let small = prepose(limit, &["--seed", "1", "--steps", "1", "-o", out]);
    assert!(small.status.success(), "{}", said(&small));
    let large = [
        "--seed",
        "2",
        "--steps",
        "1",
        "--size",
        "768",
        "--vae-tiling=off",
        "-o",
        out,
    ];
    let large = prepose(limit, &large);
    let text = said(&large);
    assert_eq!(large.status.code(), Some(2), "{text}");
    for part in ["out of memory", "768×768", "--vae-tiling", "--size"] {
        assert!(text.contains(part), "{text:?} does not say {part:?}");
    }
    assert_eq!(text.matches("error:").count(), 1, "{text}");
    assert!(folder.path().join("a-dog-1.png").exists());
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn short_memory_means_tiles_and_smaller_batches() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let limit = limit(110);
    let tiled = prepose(
        limit,
        &["--seed", "3", "--steps", "1", "--size", "704", "-o", out],
    );
    let text = said(&tiled);
    assert!(tiled.status.success(), "{text}");
    assert!(text.contains("in tiles"), "{text}");
    let request = prepose::output::png::read_request(&folder.path().join("a-dog-3.png")).unwrap();
    assert!(request.vae_tiling);

    let eight = [
        "--seeds", "10-17", "-b", "8", "--steps", "1", "--size", "384", "-o", out,
    ];
    let made = prepose(limit, &eight);
    let text = said(&made);
    assert!(made.status.success(), "{text}");
    assert!(text.contains("at a time"), "{text}");
    for seed in 10..18 {
        assert!(folder.path().join(format!("a-dog-{seed}.png")).exists());
    }
}
