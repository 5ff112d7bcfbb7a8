//! Memory: how much there is, how much a piece of work took, and what happens when it runs out.

mod host;
mod meter;
mod room;
mod shortage;

pub use host::{HostAllocator, on_exhaustion};
pub use meter::MemoryMeter;
pub use room::Room;
pub(crate) use shortage::attempt;
pub use shortage::{OutOfMemory, Shortage, Size, silence_panics};
