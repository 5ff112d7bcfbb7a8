//! The guidance methods against PyTorch: `fixtures/guidance` (losses, and gradients through the tiny networks) and
//! `fixtures/guidance-toybox` (whole guided runs), made by `scripts/reference/make.py`.

mod gradients;
mod refusals;
mod runs;
mod scores;
mod steer;
mod support;
