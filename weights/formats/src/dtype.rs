//! How a file stores numbers.

use std::fmt;

/// The type in which a file stores a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StoredType {
    /// 64-bit float.
    F64,
    /// 32-bit float.
    F32,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
    /// Anything that is no weight of a network here (integers, 8-bit floats), by the file's name for
    /// it, with the bits of an element.
    Other(&'static str, usize),
}

/// safetensors' type names with the bits of an element, floats that are loaded left out.
const OTHERS: &[(&str, usize)] = &[
    ("BOOL", 8),
    ("F4", 4),
    ("F6_E2M3", 6),
    ("F6_E3M2", 6),
    ("U8", 8),
    ("I8", 8),
    ("F8_E5M2", 8),
    ("F8_E4M3", 8),
    ("F8_E8M0", 8),
    ("F8_E4M3FNUZ", 8),
    ("F8_E5M2FNUZ", 8),
    ("I16", 16),
    ("U16", 16),
    ("I32", 32),
    ("U32", 32),
    ("I64", 64),
    ("U64", 64),
    ("C64", 64),
];

impl StoredType {
    /// The type that safetensors calls `name`.
    pub(crate) fn from_safetensors(name: &str) -> Option<Self> {
        match name {
            "F64" => Some(Self::F64),
            "F32" => Some(Self::F32),
            "F16" => Some(Self::F16),
            "BF16" => Some(Self::Bf16),
            _ => OTHERS
                .iter()
                .find(|(other, _)| *other == name)
                .map(|(n, bits)| Self::Other(n, *bits)),
        }
    }

    /// Bits of one element.
    pub fn bits(self) -> usize {
        match self {
            Self::F64 => 64,
            Self::F32 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::Other(_, bits) => bits,
        }
    }
}

impl fmt::Display for StoredType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Other(name, _) => name,
        })
    }
}
