//! Where the tests of both programs find their data, and an object store for both.

#[allow(dead_code, reason = "each program uses a part of it")]
pub mod gateway;

use std::path::{Path, PathBuf};

/// The repository's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file or folder in `fixtures/`.
pub fn fixture(name: &str) -> PathBuf {
    root().join("fixtures").join(name)
}

/// A file or folder of the benchmarks' released data, in the folder that `PREPOSE_BENCHMARK_DATA` names. fixtures/README.md
/// says what is in it.
#[track_caller]
pub fn released(name: &str) -> PathBuf {
    let folder = std::env::var_os("PREPOSE_BENCHMARK_DATA")
        .expect("PREPOSE_BENCHMARK_DATA names the folder of the benchmarks' released data");
    let path = Path::new(&folder).join(name);
    assert!(path.exists(), "there is no {}", path.display());
    path
}
