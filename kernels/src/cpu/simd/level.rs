//! Which instructions of the processor the kernels use.

use std::env;
use std::fmt;
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// Environment variable that names the widest instructions that may be used, however many the processor has: `portable`, `avx2`,
/// `avx512`, `avx512-bf16` or `amx`. For what other processors would take, and for sums in the same order on all of them.
pub const INSTRUCTIONS_VARIABLE: &str = "PREPOSE_INSTRUCTIONS";

/// Which version of every kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) enum Level {
    Portable,
    Avx2,
    Avx512,
    /// With products of pairs of bf16.
    Avx512Bf16,
    /// With those, and with products of tiles of them.
    Amx,
}

impl Level {
    pub(super) const ALL: [Self; 5] = [
        Self::Portable,
        Self::Avx2,
        Self::Avx512,
        Self::Avx512Bf16,
        Self::Amx,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Bf16 => "avx512-bf16",
            Self::Amx => "amx",
        }
    }

    /// The one of this name; the widest for none.
    fn named(name: &str) -> Result<Self, UnknownInstructions> {
        if name.is_empty() {
            return Ok(Self::Amx);
        }
        let mut all = Self::ALL.into_iter();
        all.find(|level| level.name() == name)
            .ok_or_else(|| UnknownInstructions(name.into()))
    }
}

/// [`INSTRUCTIONS_VARIABLE`] names none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownInstructions(String);

impl fmt::Display for UnknownInstructions {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Level::ALL.map(Level::name).join(", ");
        write!(
            to,
            "{INSTRUCTIONS_VARIABLE} is {:?}; it may be {known}",
            self.0
        )
    }
}

impl std::error::Error for UnknownInstructions {}

/// Name of the CPU's instructions that the kernels use, as [`INSTRUCTIONS_VARIABLE`] has them: the widest of this processor, or those
/// that the variable allows. The variable is read once in a process.
///
/// # Errors
/// The variable names none. The kernels then go by the processor alone.
pub fn instructions() -> Result<&'static str, UnknownInstructions> {
    limit().map(|_| level().name())
}

fn limit() -> Result<Level, UnknownInstructions> {
    let named = env::var_os(INSTRUCTIONS_VARIABLE).unwrap_or_default();
    Level::named(&named.to_string_lossy())
}

/// The version that runs.
#[cfg(target_arch = "x86_64")]
pub(crate) fn level() -> Level {
    #[cfg(test)]
    if let Some(level) = super::forced::get() {
        return level;
    }
    static BEST: OnceLock<Level> = OnceLock::new();
    *BEST.get_or_init(|| best(limit().unwrap_or(Level::Amx)))
}

/// The version that runs.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn level() -> Level {
    Level::Portable
}

/// The best version for this processor up to `limit`.
#[cfg(target_arch = "x86_64")]
fn best(limit: Level) -> Level {
    let wide = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("fma");
    let pairs = wide && is_x86_feature_detected!("avx512bf16");
    // The system is asked for the tiles only if they may be used.
    let has = |level: Level| match level {
        Level::Portable => true,
        Level::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
        Level::Avx512 => wide,
        Level::Avx512Bf16 => pairs,
        Level::Amx => pairs && crate::cpu::tile::has_amx(),
    };
    let mut from_the_widest = Level::ALL.into_iter().rev();
    from_the_widest
        .find(|level| *level <= limit && has(*level))
        .unwrap_or(Level::Portable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_that_of_its_instructions() {
        for level in Level::ALL {
            assert_eq!(Level::named(level.name()), Ok(level));
        }
        assert_eq!(Level::named(""), Ok(Level::Amx));
        let error = Level::named("sse\u{7}").expect_err("none of them");
        let said = "PREPOSE_INSTRUCTIONS is \"sse\\u{7}\"; it may be portable, avx2, avx512, avx512-bf16, amx";
        assert_eq!(error.to_string(), said);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_limit_is_one() {
        let widest = best(Level::Amx);
        for limit in Level::ALL {
            assert_eq!(best(limit), limit.min(widest));
        }
    }
}
