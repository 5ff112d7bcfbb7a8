//! The most memory that a piece of work took.

use burn::tensor::Device;

/// Watches the memory of a piece of work.
pub struct MemoryMeter {
    device: Device,
    /// Of the process, in bytes, when the work began.
    resident: Option<u64>,
    /// Of the device's allocator, in bytes, when the work began.
    reserved: Option<u64>,
}

impl MemoryMeter {
    /// Begins now; what the device holds for reuse is given back first.
    pub fn start(device: &Device) -> Self {
        device.memory_cleanup();
        prepose_kernels::release_freed_memory();
        // Sets the process's high-water mark to what it uses now; Linux only.
        let reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
        Self {
            resident: reset.then(|| status("VmRSS")).flatten(),
            reserved: device.memory_pool_usage().map(|usage| usage.bytes_reserved),
            device: device.clone(),
        }
    }

    /// Bytes beyond what was in use at the start: of the device if it tells, else of the process; none if neither does.
    pub fn extra(&self) -> Option<u64> {
        let before = self.reserved.or(self.resident)?;
        Some(self.peak()?.saturating_sub(before))
    }

    /// All bytes that were in use at most, those from before the start included.
    pub fn peak(&self) -> Option<u64> {
        match self.reserved {
            Some(_) => self
                .device
                .memory_pool_usage()
                .map(|usage| usage.bytes_reserved),
            None => self.resident.and_then(|_| status("VmHWM")),
        }
    }
}

/// A line of `/proc/self/status`, in bytes.
pub(super) fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes = line.trim_start_matches(':').trim().strip_suffix("kB")?;
    Some(1024 * kibibytes.trim().parse::<u64>().ok()?)
}
