//! The arguments of `prepose generate` about what is where: guidance, prompt changes, search, attention maps.

mod change;
mod guide;
mod maps;
mod search;

pub(super) use change::ChangeArgs;
pub(super) use guide::GuideArgs;
pub(super) use maps::MapArgs;
pub(super) use search::SearchArgs;
