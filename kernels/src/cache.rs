//! Kernels that were compiled, and choices between kernels that were timed, are kept in a file.
//!
//! Without it every start of the program compiles and tunes everything again, which takes minutes on CUDA.

use std::path::PathBuf;
use std::sync::OnceLock;

/// The file that keeps what was compiled and tuned, for all devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelCache {
    /// An SQLite database, which CubeCL makes when it first needs it.
    pub file: PathBuf,
    /// How much was in it when this process asked first: compiled kernels and tuned choices.
    pub entries: u64,
}

/// Keeps compiled kernels and tuned choices in `prepose/default.db` below the user's cache folder
/// (`$XDG_CACHE_HOME`, else `~/.cache`; what `cubecl.toml` or `burn.toml` says of the environment's path and name comes first).
///
/// Call it before the first GPU is opened: CubeCL reads its configuration once, and later this changes nothing. The first
/// call's result is returned by all. None if there is nothing to keep (no GPU backend is built in) or no home directory to keep it in.
/// Several processes may share the file.
pub fn keep_compiled_kernels() -> Option<&'static KernelCache> {
    static CACHE: OnceLock<Option<KernelCache>> = OnceLock::new();
    CACHE.get_or_init(configure).as_ref()
}

#[cfg(not(feature = "gpu"))]
fn configure() -> Option<KernelCache> {
    None
}

#[cfg(feature = "gpu")]
fn configure() -> Option<KernelCache> {
    use cubecl::config::cache::CacheConfig;
    use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};
    use etcetera::BaseStrategy;

    let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
    // CubeCL's own default is the `target` folder of whatever Rust project the program is started in.
    if matches!(config.environment.path, CacheConfig::Target) {
        let folders = etcetera::choose_base_strategy().ok()?;
        config.environment.path = CacheConfig::Directory(folders.cache_dir().join("prepose"));
    }
    config.compilation.cache = true;
    CubeClRuntimeConfig::try_set(config);
    let file = cubecl::environment::path();
    // Looking makes the file, which would be of no use on a machine without a GPU.
    let entries = match file.exists() {
        true => count(),
        false => 0,
    };
    Some(KernelCache { file, entries })
}

#[cfg(feature = "gpu")]
fn count() -> u64 {
    let kept = cubecl::environment::namespaces();
    kept.iter().map(|namespace| namespace.entries).sum()
}

impl KernelCache {
    /// Whether something can be kept: opens the file, or makes it, and looks at how it begins. CubeCL does without a file that it
    /// cannot use and says so only to its log.
    pub fn is_usable(&self) -> bool {
        #[cfg(feature = "gpu")]
        count();
        begins_as_database(&self.file)
    }
}

/// Whether the file begins as SQLite's do.
fn begins_as_database(file: &std::path::Path) -> bool {
    use std::io::Read;

    let mut head = [0; 16];
    let read = std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && &head == b"SQLite format 3\0"
}
