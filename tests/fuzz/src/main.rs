//! libFuzzer's program: the target is the one that `PREPOSE_FUZZ_TARGET` names.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use prepose_fuzz::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("PREPOSE_FUZZ_TARGET").unwrap_or_default();
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, target) = target.unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        panic!("PREPOSE_FUZZ_TARGET is {name:?}, and has to be one of {names:?}")
    });
    *target
});

fuzz_target!(|data: &[u8]| TARGET(data));
