//! How much memory there is.

use std::fs;
use std::path::Path;

use super::meter::status;
use crate::device::OpenDevice;

/// The memory of a device, in bytes; `None` where nothing tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Room {
    /// All that it has, or that this program may use.
    pub total: Option<u64>,
    /// What this program can still take, with what its allocator holds for reuse.
    pub free: Option<u64>,
}

impl Room {
    /// As of now. On the CPU the smallest of what the system has available, what the control group leaves and what
    /// the limit on the address space leaves; with CUDA what the driver says; on other GPUs what the device has less
    /// what this program uses of it.
    pub fn of(device: &OpenDevice) -> Self {
        match device.is_cpu() {
            true => host(),
            false => gpu(device),
        }
    }
}

/// Memory of this process's host.
fn host() -> Room {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let mut room = Room {
        total: line(&meminfo, "MemTotal:"),
        free: line(&meminfo, "MemAvailable:"),
    };
    for (limit, used) in limits() {
        room.total = Some(room.total.map_or(limit, |total| total.min(limit)));
        let left = limit.saturating_sub(used);
        room.free = Some(room.free.map_or(left, |free| free.min(left)));
    }
    room
}

/// Limits of this process with what is used of them.
fn limits() -> impl Iterator<Item = (u64, u64)> {
    // `ulimit -v`
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let address_space = text
        .lines()
        .find_map(|line| line.strip_prefix("Max address space"));
    let limit = address_space.and_then(|line| line.split_whitespace().next()?.parse().ok());
    let address_space = limit.zip(status("VmSize"));

    // A container sees its own group at the root; version 2, then version 1.
    let groups = [
        (
            "/sys/fs/cgroup",
            ["memory.max", "memory.current"],
            ["active_file", "inactive_file"],
        ),
        (
            "/sys/fs/cgroup/memory",
            ["memory.limit_in_bytes", "memory.usage_in_bytes"],
            ["total_active_file", "total_inactive_file"],
        ),
    ];
    let groups = groups
        .into_iter()
        .filter_map(|(folder, [limit, used], files)| {
            let folder = Path::new(folder);
            let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
            let used = number(folder.join(used))?.saturating_sub(cached(&stat, files));
            Some((number(folder.join(limit))?, used))
        });
    address_space.into_iter().chain(groups)
}

/// What a control group's `memory.stat` counts as used and the system gives up when it is wanted: copies of files.
fn cached(stat: &str, names: [&str; 2]) -> u64 {
    let lines = stat.lines().filter_map(|line| line.split_once(' '));
    let wanted = lines.filter(|(name, _)| names.contains(name));
    let bytes = wanted.filter_map(|(_, bytes)| bytes.trim().parse::<u64>().ok());
    bytes.sum()
}

fn number(path: impl AsRef<Path>) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// A line of `/proc/meminfo`, in bytes.
fn line(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    Some(1024 * line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?)
}

#[cfg(not(any(
    feature = "cuda",
    feature = "wgpu",
    feature = "vulkan",
    feature = "metal"
)))]
fn gpu(_device: &OpenDevice) -> Room {
    Room::default()
}

#[cfg(any(
    feature = "cuda",
    feature = "wgpu",
    feature = "vulkan",
    feature = "metal"
))]
fn gpu(device: &OpenDevice) -> Room {
    use burn::backend::DispatchDevice;

    let usage = device.device.memory_pool_usage();
    #[cfg(feature = "cuda")]
    if let crate::device::DeviceSpec::One {
        backend: crate::device::Backend::Cuda,
        index,
    } = device.spec
        && let Some((free, total)) = cuda(index)
    {
        // What the allocator holds and does not use can be had as well.
        let held = usage.map_or(0, |usage| {
            usage.bytes_reserved.saturating_sub(usage.bytes_in_use)
        });
        return Room {
            total: Some(total),
            free: Some(free + held),
        };
    }
    let DispatchDevice::Cube(cube) = device.device.as_dispatch() else {
        return Room::default();
    };
    let total = cube.client().properties().memory.max_memory();
    let used = usage.map_or(0, |usage| usage.bytes_in_use);
    let free = total.map(|total| total.saturating_sub(used));
    let is_card = device
        .device
        .identity()
        .is_some_and(|identity| identity.physical.is_some());
    if is_card {
        return Room { total, free };
    }
    // A software device has the host's memory.
    let host = host();
    let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
    Room {
        total: least(total, host.total),
        free: least(free, host.free),
    }
}

/// What the driver says of a device: free and total bytes.
#[cfg(feature = "cuda")]
fn cuda(index: usize) -> Option<(u64, u64)> {
    // The driver's library is loaded by name, and its absence is a panic.
    let info = std::panic::catch_unwind(|| cudarc::driver::CudaContext::new(index)?.mem_get_info());
    let (free, total) = info.ok()?.ok()?;
    Some((free as u64, total as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_what_it_has() {
        let meminfo = "MemTotal:       16384 kB\nMemFree:  1 kB\nMemAvailable:    8192 kB\n";
        assert_eq!(line(meminfo, "MemTotal:"), Some(16 << 20));
        assert_eq!(line(meminfo, "MemAvailable:"), Some(8 << 20));
        assert_eq!(line(meminfo, "SwapTotal:"), None);
    }

    #[test]
    fn copies_of_files_are_free() {
        let stat = "anon 7000\nfile 5000\ninactive_anon 1\nactive_file 1000\ninactive_file 300\n";
        assert_eq!(cached(stat, ["active_file", "inactive_file"]), 1300);
        assert_eq!(
            cached(stat, ["total_active_file", "total_inactive_file"]),
            0
        );
        assert_eq!(cached("", ["active_file", "inactive_file"]), 0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_cpu_has_memory() {
        let device = crate::device::open("flex".parse().unwrap()).unwrap();
        let Room { total, free } = Room::of(&device);
        assert!(free.unwrap() > 0 && free <= total);
    }
}
