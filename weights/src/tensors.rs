//! From the bytes of a file's tensors to numbers.

use burn::tensor::{DType, TensorData};
use half::vec::HalfBitsVecExt;
use half::{bf16, f16};
use prepose_formats::{StoredType, TensorFile, TensorPart};

use crate::error::WeightsError;

/// A tensor's values, with what was noticed while reading them.
pub(crate) struct Values {
    pub data: TensorData,
    /// Neither NaN nor infinite.
    pub finite: bool,
}

/// A part of the tensor `name` of `file`. f64 comes as f32, the other floats as they are stored.
pub(crate) fn read(
    file: &TensorFile,
    name: &str,
    part: TensorPart,
) -> Result<Values, WeightsError> {
    let info = file.info(name).ok_or_else(|| WeightsError::Json {
        path: file.path().to_path_buf(),
        what: format!("there is no tensor {name}"),
        source: None,
    })?;
    let dtype = float(info.dtype).ok_or_else(|| WeightsError::Dtype {
        path: file.path().to_path_buf(),
        name: name.to_string(),
        dtype: info.dtype.to_string(),
    })?;
    let mut shape = info.shape.clone();
    if let Some(rows) = shape.first_mut() {
        *rows /= part.of;
    }
    let elements = shape.iter().product();
    let (data, finite) = match dtype {
        DType::F16 => {
            let (bits, finite) = words(file, name, part, elements, u16::from_le_bytes, |bits| {
                bits & 0x7c00 == 0x7c00
            });
            (
                TensorData::new(bits.reinterpret_into::<f16>(), shape),
                finite,
            )
        }
        DType::BF16 => {
            let (bits, finite) = words(file, name, part, elements, u16::from_le_bytes, |bits| {
                bits & 0x7f80 == 0x7f80
            });
            (
                TensorData::new(bits.reinterpret_into::<bf16>(), shape),
                finite,
            )
        }
        DType::F32 => {
            let (values, finite) = words(file, name, part, elements, f32::from_le_bytes, |x| {
                x.to_bits() & 0x7f80_0000 == 0x7f80_0000
            });
            (TensorData::new(values, shape), finite)
        }
        _ => {
            let narrow = |bytes| f64::from_le_bytes(bytes) as f32;
            let (values, finite) = words(file, name, part, elements, narrow, |x| !x.is_finite());
            (TensorData::new(values, shape), finite)
        }
    };
    Ok(Values { data, finite })
}

/// The number in the tensor `name` of one element, if it is stored as an integer.
pub(crate) fn integer(file: &TensorFile, name: &str) -> Option<i64> {
    let info = file.info(name).filter(|info| info.elements() == 1)?;
    let StoredType::Other(kind, _) = info.dtype else {
        return None;
    };
    let mut bytes = Vec::new();
    file.pieces(name, TensorPart::WHOLE, &mut |piece| {
        bytes.extend_from_slice(piece);
    });
    Some(match kind {
        "I64" => i64::from_le_bytes(bytes.try_into().ok()?),
        "I32" => i32::from_le_bytes(bytes.try_into().ok()?).into(),
        "I16" => i16::from_le_bytes(bytes.try_into().ok()?).into(),
        "I8" => i8::from_le_bytes(bytes.try_into().ok()?).into(),
        "U8" => u8::from_le_bytes(bytes.try_into().ok()?).into(),
        _ => return None,
    })
}

/// The elements of a tensor, and whether `is_bad` is true of none. In two simple loops over
/// pieces that stay in the cache, so that both run at the speed of memory.
fn words<const N: usize, T: Copy>(
    file: &TensorFile,
    name: &str,
    part: TensorPart,
    elements: usize,
    from_bytes: impl Fn([u8; N]) -> T,
    is_bad: impl Fn(T) -> bool,
) -> (Vec<T>, bool) {
    let mut values: Vec<T> = Vec::with_capacity(elements);
    let mut bad = false;
    file.pieces(name, part, &mut |piece| {
        let start = values.len();
        values.extend(
            piece
                .as_chunks::<N>()
                .0
                .iter()
                .map(|bytes| from_bytes(*bytes)),
        );
        bad |= values[start..]
            .iter()
            .fold(false, |bad, value| bad | is_bad(*value));
    });
    (values, !bad)
}

/// Burn's type, for the floats that networks load.
fn float(stored: StoredType) -> Option<DType> {
    match stored {
        StoredType::F64 => Some(DType::F64),
        StoredType::F32 => Some(DType::F32),
        StoredType::F16 => Some(DType::F16),
        StoredType::Bf16 => Some(DType::BF16),
        StoredType::Other(..) => None,
    }
}
