//! Estimates of memory against measured peaks, and what happens when it runs short.

use std::process::{Command, Output};

use crate::program::stderr;

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
        assert!(made.status.success(), "{}", stderr(&made));
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
    assert!(made.status.success(), "{}", stderr(&made));
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
    assert!(small.status.success(), "{}", stderr(&small));
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
    let text = stderr(&large);
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
    let text = stderr(&tiled);
    assert!(tiled.status.success(), "{text}");
    assert!(text.contains("in tiles"), "{text}");
    let request = prepose::output::png::read_request(&folder.path().join("a-dog-3.png")).unwrap();
    assert!(request.vae_tiling);

    let eight = [
        "--seeds", "10-17", "-b", "8", "--steps", "1", "--size", "384", "-o", out,
    ];
    let made = prepose(limit, &eight);
    let text = stderr(&made);
    assert!(made.status.success(), "{text}");
    assert!(text.contains("at a time"), "{text}");
    for seed in 10..18 {
        assert!(folder.path().join(format!("a-dog-{seed}.png")).exists());
    }
}
