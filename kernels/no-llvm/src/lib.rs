//! What `cubecl-cuda` names of `cubecl-llvm`, without LLVM. See the README beside this crate.

use cubecl_environment::backtrace::BackTrace;
use cubecl_core::ir::nvidia::SmArch;
use cubecl_core::prelude::KernelDefinition;
use cubecl_server::compiler::{CompilationError, Compiler};
use cubecl_server::kernel::BufferIOAttr;

use nvptx::ptx_version::PtxVersion;

/// NVPTX specifics.
pub mod nvptx {
    /// PTX versions.
    pub mod ptx_version {
        use core::fmt;

        /// A PTX ISA version. No value of it is ever made here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct PtxVersion(core::convert::Infallible);

        impl PtxVersion {
            /// Always `None`: NVRTC chooses the version itself.
            pub fn for_driver(_driver: i32) -> Option<Self> {
                None
            }
        }

        impl fmt::Display for PtxVersion {
            fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {}
            }
        }
    }
}

/// What the GPU targets share.
pub mod shared {
    /// Feature restriction.
    pub mod lowered_features {
        use cubecl_core::ir::DeviceProperties;

        /// The GPU targets of the LLVM backend.
        #[derive(Clone, Copy, Debug)]
        pub enum GpuTarget {
            /// NVIDIA.
            Nvptx,
        }

        /// Leaves `props` alone: only the LLVM backend has restrictions.
        pub fn restrict_features(_props: &mut DeviceProperties, _target: GpuTarget) {}
    }
}

/// The targets of the LLVM backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LlvmTarget {
    /// NVIDIA.
    #[default]
    Nvptx,
}

/// A compiler that refuses every kernel.
#[derive(Clone, Debug, Default)]
pub struct PlironCompiler {
    /// What it would compile for.
    pub target: LlvmTarget,
}

/// Options of the LLVM backend.
#[derive(Clone, Debug, Default)]
pub struct PlironOptions {
    /// Unused.
    pub arch: Option<SmArch>,
    /// NVPTX architecture.
    pub sm_arch: Option<SmArch>,
    /// PTX version to emit.
    pub ptx_version: Option<PtxVersion>,
    /// Whether scalars travel in the kernel's parameter block.
    pub grid_constants: bool,
    /// Lets callers end with `..Default::default()`.
    pub reserved: (),
}

/// A compiled PTX module. No value of it is ever made here.
#[derive(Clone, Debug)]
pub struct NvptxModule {
    /// NUL-terminated PTX.
    pub ptx: Vec<core::ffi::c_char>,
    /// Entry point.
    pub entrypoint: String,
    /// IR for logging.
    pub ir: String,
    /// Shared memory of a launch, in bytes.
    pub shared_memory_size: usize,
    /// Buffer access in binding order.
    pub io: Vec<BufferIOAttr>,
}

/// A compiled kernel. No value of it is ever made here.
#[derive(Clone)]
pub enum PlironArtifact {
    /// For NVIDIA.
    NvptxCode(NvptxModule),
    /// Keeps `match` arms of callers reachable.
    Other,
}

impl core::fmt::Display for PlironArtifact {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("no LLVM in this build")
    }
}

impl Compiler for PlironCompiler {
    type Representation = PlironArtifact;
    type CompilationOptions = PlironOptions;

    fn compile(
        &mut self,
        _kernel: KernelDefinition,
        _options: &Self::CompilationOptions,
    ) -> Result<Self::Representation, CompilationError> {
        Err(CompilationError::Validation {
            reason: "this build has no LLVM backend; kernels for CUDA are compiled with NVRTC \
                     (feature `cuda-cpp` of `cubecl`)"
                .into(),
            backtrace: BackTrace::capture(),
        })
    }

    fn extension(&self) -> &'static str {
        "ll"
    }

    fn lang_tag(&self) -> &'static str {
        "llvm"
    }
}
