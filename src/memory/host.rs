//! The host's memory running out.
//!
//! Rust ends a process whose allocation fails with an abort, and an allocator must not panic. What is left is to say
//! what happened and to exit as after any other error.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::Mutex;

use super::shortage::Size;

/// What is told besides the size of the allocation that failed.
static ADVICE: Mutex<String> = Mutex::new(String::new());

/// Sets what is told when the host's memory runs out: what is being done, and what helps.
pub fn on_exhaustion(advice: String) {
    if let Ok(mut current) = ADVICE.lock() {
        *current = advice;
    }
}

/// The system's allocator, which ends the program with exit code 2 and a message when there is no memory left. For a
/// program's `#[global_allocator]`.
pub struct HostAllocator;

// SAFETY: the system's allocator does the work. When it fails, the process ends without unwinding.
unsafe impl GlobalAlloc for HostAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as this function's caller guarantees.
        checked(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as this function's caller guarantees.
        checked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as this function's caller guarantees.
        checked(unsafe { System.realloc(memory, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as this function's caller guarantees.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[inline]
fn checked(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() {
        exhausted(size);
    }
    memory
}

/// Allocates nothing.
#[cold]
fn exhausted(size: usize) -> ! {
    let advice = ADVICE.try_lock();
    let advice = advice.as_deref().map_or("", String::as_str);
    // The standard error stream has no buffer, and there is nowhere to tell of its errors.
    let _ = writeln!(
        std::io::stderr(),
        "error: out of memory, asking the system for {}{advice}",
        Size(size as u64)
    );
    std::process::exit(2)
}
