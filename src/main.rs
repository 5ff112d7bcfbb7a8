//! The `prepose` program.

#![warn(clippy::unwrap_used)]

#[global_allocator]
static ALLOCATOR: prepose::memory::HostAllocator = prepose::memory::HostAllocator;

fn main() -> std::process::ExitCode {
    prepose::cli::main()
}
