//! Choosing a device when the program runs.

mod spec;

use std::fmt;
use std::panic::{self, AssertUnwindSafe};

use burn::tensor::{Device, Tensor};
use prepose_kernels::{KernelCache, keep_compiled_kernels};
use serde::Serialize;
use thiserror::Error;

use crate::dtype::Dtype;

pub use self::spec::DeviceSpec;

/// A kind of device that this program knows of, built in or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// NVIDIA through CUDA.
    Cuda,
    /// Any GPU through Vulkan and SPIR-V.
    Vulkan,
    /// Apple's GPUs.
    Metal,
    /// Any GPU through WebGPU's shading language.
    Wgpu,
    /// The CPU, in plain Rust. The reference for the others.
    Flex,
}

impl Backend {
    /// All of them, the best first: the order in which `auto` tries.
    pub const ALL: [Backend; 5] = [
        Backend::Cuda,
        Backend::Vulkan,
        Backend::Metal,
        Backend::Wgpu,
        Backend::Flex,
    ];

    /// As `--device` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Cuda => "cuda",
            Backend::Vulkan => "vulkan",
            Backend::Metal => "metal",
            Backend::Wgpu => "wgpu",
            Backend::Flex => "flex",
        }
    }

    /// Whether this program was built with it.
    pub fn is_built_in(self) -> bool {
        match self {
            Backend::Cuda => cfg!(feature = "cuda"),
            Backend::Vulkan => cfg!(feature = "vulkan"),
            Backend::Metal => cfg!(feature = "metal"),
            Backend::Wgpu => cfg!(feature = "wgpu"),
            Backend::Flex => true,
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a device cannot be used.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// Not a device's name.
    #[error(
        "unknown device {spec:?}; use auto, cuda[:i], vulkan[:i], metal, wgpu[:i] or flex (the CPU)"
    )]
    Unknown {
        /// As typed.
        spec: String,
    },
    /// The program was built without it.
    #[error(
        "this program was built without {backend}; build it with `cargo build --release --features {backend}`"
    )]
    NotBuiltIn {
        /// Which backend.
        backend: Backend,
    },
    /// The backend finds no device, or not as many.
    #[error("{backend}:{index} does not exist: {reason}")]
    Missing {
        /// Which backend.
        backend: Backend,
        /// Which of its devices.
        index: usize,
        /// What was found instead.
        reason: String,
    },
    /// The device is there and does not compute.
    #[error("{backend}:{index} was found but does not work: {reason}")]
    Broken {
        /// Which backend.
        backend: Backend,
        /// Which of its devices.
        index: usize,
        /// What happened.
        reason: String,
    },
    /// The device does not compute in the type of the weights.
    #[error("{device} does not compute in {dtype:?}; use --dtype f32")]
    Dtype {
        /// As `--device` names it.
        device: String,
        /// What was asked for.
        dtype: Dtype,
    },
}

/// A device that has computed something.
#[derive(Clone, Debug)]
pub struct OpenDevice {
    /// Burn's handle.
    pub device: Device,
    /// How `--device` names it.
    pub spec: DeviceSpec,
    /// What the hardware calls itself.
    pub name: String,
    /// Where its compiled kernels are kept; none on the CPU.
    pub kernel_cache: Option<&'static KernelCache>,
}

impl OpenDevice {
    /// How pictures and manifests name it, such as `cuda:0 (NVIDIA H100)`.
    pub fn title(&self) -> String {
        format!("{} ({})", self.spec, self.name)
    }

    /// The type for weights that nobody chose: f16 where a GPU computes in it, else f32.
    pub fn default_dtype(&self) -> Dtype {
        match !self.is_cpu() && self.check_dtype(Dtype::F16).is_ok() {
            true => Dtype::F16,
            false => Dtype::F32,
        }
    }

    /// Whether the device computes in `dtype`.
    ///
    /// # Errors
    /// [`DeviceError::Dtype`] if it does not.
    pub fn check_dtype(&self, dtype: Dtype) -> Result<(), DeviceError> {
        match self.device.supports_dtype(dtype.float()) {
            true => Ok(()),
            false => Err(DeviceError::Dtype {
                device: self.spec.to_string(),
                dtype,
            }),
        }
    }

    /// Says on the log what a user should know about compiling: that a first run takes long, or that nothing is kept.
    fn warn_of_compiling(&self) {
        /// Opening a device compiles a few kernels; a picture takes hundreds.
        const A_FEW: u64 = 50;
        let Some(cache) = self.kernel_cache else {
            return;
        };
        let file = cache.file.display();
        if !cache.is_usable() {
            tracing::warn!(
                "kernels are compiled and tuned at every start, which takes minutes: they cannot be kept in {file}; make its \
                 folder writable, remove the file if it is something else, or name another folder with XDG_CACHE_HOME"
            );
        } else if cache.entries < A_FEW {
            tracing::warn!(
                "the first run on a GPU compiles and tunes kernels, which takes minutes; they are kept in {file}"
            );
        }
    }

    /// Whether it is the CPU.
    pub fn is_cpu(&self) -> bool {
        matches!(
            self.spec,
            DeviceSpec::One {
                backend: Backend::Flex,
                ..
            }
        )
    }
}

/// Opens the device that `spec` asks for and makes sure that it computes. Says on the log if compiling will take long.
pub fn open(spec: DeviceSpec) -> Result<OpenDevice, DeviceError> {
    let opened = find(spec)?;
    opened.warn_of_compiling();
    Ok(opened)
}

/// As [`open`], without a word.
pub fn find(spec: DeviceSpec) -> Result<OpenDevice, DeviceError> {
    match spec {
        DeviceSpec::One { backend, index } => open_one(backend, index),
        DeviceSpec::Auto => {
            let usable = Backend::ALL.into_iter().find_map(|backend| {
                let opened = open_one(backend, 0).ok()?;
                let is_software = !opened.is_cpu() && is_software(&opened.name);
                (!is_software).then_some(opened)
            });
            // `flex` is last in the list and always works.
            usable.map_or_else(|| open_one(Backend::Flex, 0), Ok)
        }
    }
}

/// A GPU interface run by the CPU is slower than the CPU itself.
fn is_software(name: &str) -> bool {
    let name = name.to_lowercase();
    ["llvmpipe", "swiftshader", "lavapipe", "software"]
        .iter()
        .any(|software| name.contains(software))
}

fn open_one(backend: Backend, index: usize) -> Result<OpenDevice, DeviceError> {
    if !backend.is_built_in() {
        return Err(DeviceError::NotBuiltIn { backend });
    }
    let kernel_cache = match backend {
        Backend::Flex => None,
        _ => keep_compiled_kernels(),
    };
    let missing = |reason: String| DeviceError::Missing {
        backend,
        index,
        reason,
    };
    let devices = quietly(|| enumerate(backend)).map_err(missing)?;
    let count = devices.len();
    let device = devices.into_iter().nth(index).ok_or_else(|| {
        missing(match count {
            0 => format!("no {backend} device was found"),
            1 => format!("there is only {backend}:0"),
            _ => format!("there are only {backend}:0 to {backend}:{}", count - 1),
        })
    })?;
    let name = quietly(|| {
        let ones = Tensor::<1>::ones([64], &device);
        let sum: f32 = (ones.clone() + ones).sum().into_scalar();
        assert_eq!(sum, 128.0, "64 times 1 + 1 came out wrong");
        hardware_name(&device, backend)
    })
    .map_err(|reason| DeviceError::Broken {
        backend,
        index,
        reason,
    })?;
    Ok(OpenDevice {
        device,
        spec: DeviceSpec::One { backend, index },
        name,
        kernel_cache,
    })
}

/// Backends panic where a driver is missing. A panic is turned into its message here, without the
/// default hook's output.
pub(crate) fn quietly<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    panic::set_hook(hook);
    result.map_err(|payload| {
        let message = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("the driver gave no reason");
        // The first line says what is wrong; the rest is a backend's backtrace.
        message
            .lines()
            .next()
            .unwrap_or_default()
            .trim()
            .to_string()
    })
}

fn enumerate(backend: Backend) -> Vec<Device> {
    use burn::tensor::DeviceType;
    let filter = match backend {
        #[cfg(feature = "cuda")]
        Backend::Cuda => DeviceType::Cuda,
        #[cfg(feature = "vulkan")]
        Backend::Vulkan => DeviceType::Vulkan,
        #[cfg(feature = "metal")]
        Backend::Metal => DeviceType::Metal,
        #[cfg(feature = "wgpu")]
        Backend::Wgpu => DeviceType::Wgpu,
        Backend::Flex => DeviceType::Flex,
        #[allow(unreachable_patterns)]
        _ => return Vec::new(),
    };
    Device::enumerate(filter).into_vec()
}

#[cfg_attr(
    not(any(
        feature = "cuda",
        feature = "wgpu",
        feature = "vulkan",
        feature = "metal"
    )),
    allow(unused_variables)
)]
fn hardware_name(device: &Device, backend: Backend) -> String {
    #[cfg(any(
        feature = "cuda",
        feature = "wgpu",
        feature = "vulkan",
        feature = "metal"
    ))]
    if backend != Backend::Flex
        && let Some(identity) = device.identity()
    {
        return identity.name.clone();
    }
    match backend {
        Backend::Flex => format!("CPU, {} threads", rayon::current_num_threads()),
        _ => format!("{device:?}"),
    }
}

/// A backend and what came of opening its devices.
#[derive(Debug)]
pub struct Listing {
    /// Which backend.
    pub backend: Backend,
    /// Its devices, or why there are none.
    pub devices: Vec<Result<OpenDevice, DeviceError>>,
}

/// Tries every device of every backend.
pub fn list() -> Vec<Listing> {
    Backend::ALL
        .into_iter()
        .map(|backend| {
            let count = match backend.is_built_in() {
                true => quietly(|| enumerate(backend).len()).unwrap_or(0),
                false => 0,
            };
            Listing {
                backend,
                // With no device at all, trying the first one says why.
                devices: (0..count.max(1))
                    .map(|index| open_one(backend, index))
                    .collect(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood() {
        let parse = |text: &str| text.parse::<DeviceSpec>();
        assert_eq!(parse("auto").unwrap(), DeviceSpec::Auto);
        let cuda = parse("cuda:1").unwrap();
        assert_eq!(
            cuda,
            DeviceSpec::One {
                backend: Backend::Cuda,
                index: 1
            }
        );
        assert_eq!(cuda.to_string(), "cuda:1");
        assert_eq!(parse("cpu").unwrap().to_string(), "flex");
        for wrong in ["", "gpu", "cuda:", "cuda:x", "auto:1", "cuda:-1"] {
            assert!(
                matches!(parse(wrong), Err(DeviceError::Unknown { .. })),
                "{wrong}"
            );
        }
    }

    #[test]
    fn the_cpu_is_always_there_and_has_no_second() {
        let opened = open("flex".parse().unwrap()).unwrap();
        assert!(opened.is_cpu());
        let error = open("flex:7".parse().unwrap()).unwrap_err();
        assert!(
            error.to_string().contains("there is only flex:0"),
            "{error}"
        );
    }

    #[test]
    fn every_backend_is_listed_without_a_panic() {
        let listings = list();
        assert_eq!(listings.len(), Backend::ALL.len());
        assert!(listings.iter().all(|listing| !listing.devices.is_empty()));
        assert!(listings.last().unwrap().devices[0].is_ok());
    }
}
