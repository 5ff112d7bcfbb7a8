//! Speed and memory, measured.
//!
//! * [`row`]: what is measured, as data, so that another program can measure the same;
//! * [`measure`]: the measuring itself, on a device;
//! * [`budget`]: what a row will take, and what is cut so that a sheet fits its time;
//! * [`machine`]: where it was measured;
//! * [`sheet`]: the result as JSON and as a table;
//! * [`roofline`]: the least that a call can take on GPUs, from shapes.
//!
//! Clocks run from after one wait for the device to after the next, never around a queue that is still being
//! worked off. Every timing has calls before it that do not count.

pub mod budget;
mod error;
pub mod machine;
pub mod measure;
mod networks;
mod pictures;
pub mod roofline;
pub mod row;
pub mod sheet;
mod timing;
