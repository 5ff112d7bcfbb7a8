//! Tensors as views of storages: an offset, extents and strides.

use std::ops::Range;
use std::rc::Rc;

use crate::dtype::StoredType;
use crate::info::TensorInfo;

/// A tensor as a view of a storage, in elements.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TensorRef {
    pub storage: Rc<str>,
    pub dtype: StoredType,
    pub offset: usize,
    pub shape: Vec<usize>,
    pub stride: Vec<usize>,
}

/// A tensor whose bytes were found.
#[derive(Debug)]
pub(super) struct Placed {
    pub info: TensorInfo,
    stride: Vec<usize>,
    /// The first byte of its first element.
    start: usize,
}

/// How many elements a tensor may have that shows the same numbers of a smaller storage again and again, as strides of
/// 0 do: enough for any bias or norm, and too few to fill the memory from a small file.
const MAX_REPEATED: usize = 1 << 20;

impl TensorRef {
    /// Its place within the file, if all of it lies in `storage`, a range of bytes.
    pub fn place(&self, storage: &Range<usize>) -> Result<Placed, &'static str> {
        const BEYOND: &str = "reaches beyond its bytes, or they are missing";
        let width = self.dtype.bits() / 8;
        let elements = TensorInfo::elements_of(&self.shape).ok_or(BEYOND)?;
        if elements > MAX_REPEATED.max(storage.len() / width) {
            return Err("repeats the same numbers more often than any weight does");
        }
        Ok(Placed {
            info: TensorInfo {
                dtype: self.dtype,
                shape: self.shape.clone(),
            },
            stride: self.stride.clone(),
            start: self.start(storage, elements, width).ok_or(BEYOND)?,
        })
    }

    fn start(&self, storage: &Range<usize>, elements: usize, width: usize) -> Option<usize> {
        let start = storage.start.checked_add(self.offset.checked_mul(width)?)?;
        let mut reach: usize = 1;
        for (extent, stride) in self.shape.iter().zip(&self.stride) {
            reach = reach.checked_add(extent.saturating_sub(1).checked_mul(*stride)?)?;
        }
        if elements == 0 {
            reach = 0;
        }
        let end = start.checked_add(reach.checked_mul(width)?)?;
        (end <= storage.end).then_some(start)
    }
}

impl Placed {
    /// The bytes of all elements from `first` to before `last`, if they lie one after the other.
    pub fn contiguous(&self, first: usize, last: usize) -> Option<Range<usize>> {
        let mut expected = 1;
        let mut axes = self.info.shape.iter().zip(&self.stride).rev();
        let is_contiguous = axes.all(|(extent, stride)| {
            let fits = *extent == 1 || *stride == expected;
            expected *= extent;
            fits
        });
        let width = self.width();
        is_contiguous.then(|| self.start + first * width..self.start + last * width)
    }

    /// The bytes of the element with this row-major number.
    pub fn element(&self, mut number: usize) -> Range<usize> {
        let mut position = 0;
        for (extent, stride) in self.info.shape.iter().zip(&self.stride).rev() {
            position += number % extent * stride;
            number /= extent;
        }
        let at = self.start + position * self.width();
        at..at + self.width()
    }

    pub fn width(&self) -> usize {
        self.info.dtype.bits() / 8
    }
}
