//! Running out of memory: how backends say it, and what a user is told.

use std::any::Any;
use std::fmt;
use std::panic::{self, AssertUnwindSafe, catch_unwind, resume_unwind};

use super::room::Room;

/// An allocation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Bytes of the one that failed, where the backend tells.
    pub bytes: Option<u64>,
}

/// What CubeCL, wgpu, and the CUDA and Vulkan drivers say when memory runs out, in lower case. The number of bytes
/// follows, where there is one.
const PHRASES: [&str; 10] = [
    "out of device memory allocating",
    "can't allocate buffer of size:",
    "couldn't map storage for a deferred allocation of",
    "an out-of-memory error happened during launch",
    "cuda_error_out_of_memory",
    "error_out_of_device_memory",
    "error_out_of_host_memory",
    "not enough memory left",
    "out of memory",
    "can't allocate",
];

impl Shortage {
    /// What a backend's error means, if it is about memory.
    pub fn read(message: &str) -> Option<Self> {
        let message = message.to_lowercase();
        let mut phrases = PHRASES.iter();
        let rest = phrases.find_map(|phrase| message.split_once(phrase))?.1;
        let number = rest.trim_start();
        let end = number
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(number.len());
        Some(Self {
            bytes: number[..end].parse().ok(),
        })
    }

    /// What a panic means, if it is about memory.
    fn of_panic(payload: &(dyn Any + Send)) -> Option<Self> {
        Self::read(message(payload)?)
    }
}

fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
}

/// Runs `work`, in which a backend may panic for want of memory; every other panic goes on.
pub(crate) fn attempt<T>(work: impl FnOnce() -> T) -> Result<T, Shortage> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| match Shortage::of_panic(&*payload) {
        Some(shortage) => shortage,
        None => resume_unwind(payload),
    })
}

/// Lets panics for want of memory pass without the usual report, since an error tells of them. For the start of a
/// program.
pub fn silence_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if Shortage::of_panic(info.payload()).is_none() {
            usual(info);
        }
    }));
}

/// Why something could not be done, and what would help.
#[derive(Clone, Debug)]
pub struct OutOfMemory {
    /// What was being done, such as "denoising 4 pictures of 1024×1024".
    pub doing: String,
    /// The device, as `--device` names it.
    pub device: String,
    /// What failed.
    pub shortage: Shortage,
    /// What it takes altogether by the estimate, weights included.
    pub needs: Option<u64>,
    /// What there was when it failed.
    pub room: Room,
    /// Switches that make it smaller, the best first.
    pub ways: Vec<String>,
}

impl std::error::Error for OutOfMemory {}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "out of memory on {} while {}", self.device, self.doing)?;
        if let Some(bytes) = self.shortage.bytes {
            write!(f, ", asking for {}", Size(bytes))?;
        }
        let needs = self
            .needs
            .map(|needs| format!("it takes about {}", Size(needs)));
        let total = self.room.total.map(|total| match self.room.free {
            Some(free) => format!("{} of {} are free", Size(free), Size(total)),
            None => format!("there are {}", Size(total)),
        });
        for part in [needs, total].into_iter().flatten() {
            write!(f, "; {part}")?;
        }
        if !self.ways.is_empty() {
            write!(f, "; what helps: {}", self.ways.join(", "))?;
        }
        Ok(())
    }
}

/// A number of bytes for people: "2.6 GB", powers of 1024 as `nvidia-smi` counts.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match UNITS.into_iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, name)) if self.0 < 100 * unit => {
                write!(f, "{:.1} {name}", self.0 as f64 / unit as f64)
            }
            Some((unit, name)) => write!(f, "{} {name}", self.0 / unit),
            None => write!(f, "{} B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_backends_say_is_understood() {
        let bytes = |message| Shortage::read(message).expect(message).bytes;
        assert_eq!(
            bytes("out of device memory allocating 1073741824 bytes\n  0: f"),
            Some(1 << 30)
        );
        assert_eq!(
            bytes("can't allocate buffer of size: 4096\nbacktrace"),
            Some(4096)
        );
        let launch = "An out-of-memory error happened during launch\nCaused by:\n  CUDA\nBacktrace";
        assert_eq!(bytes(launch), None);
        assert_eq!(
            bytes("DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")"),
            None
        );
        assert_eq!(bytes("wgpu error: Out of Memory"), None);
        assert_eq!(bytes("Not enough memory left."), None);
        let sizes = "Can't allocate 512 bytes: every page size the memory tracks";
        assert_eq!(bytes(sizes), Some(512));
        for other in [
            "index out of bounds: the len is 3",
            "the device was poisoned",
            "",
        ] {
            assert_eq!(Shortage::read(other), None, "{other}");
        }
    }

    #[test]
    fn only_panics_for_want_of_memory_are_caught() {
        assert_eq!(attempt(|| 7), Ok(7));
        let short = attempt(|| panic!("out of device memory allocating {} bytes", 64));
        assert_eq!(short, Err(Shortage { bytes: Some(64) }));
        let other = catch_unwind(|| attempt(|| panic!("a bug")));
        assert_eq!(message(&*other.unwrap_err()), Some("a bug"));
    }

    #[test]
    fn sizes_are_for_people() {
        let text = |bytes| Size(bytes).to_string();
        assert_eq!(text(12), "12 B");
        assert_eq!(text(2 << 10), "2.0 KiB");
        assert_eq!(text(140 << 30), "140 GiB");
        assert_eq!(text((5 << 29) + (1 << 20)), "2.5 GiB");
    }
}
