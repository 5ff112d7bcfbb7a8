//! The `prepose` program.

#![warn(clippy::unwrap_used)]

mod cli;

#[global_allocator]
static ALLOCATOR: prepose::memory::HostAllocator = prepose::memory::HostAllocator;

fn main() -> std::process::ExitCode {
    cli::main()
}
