//! Tensors that another library holds in this process, read where they lie.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use prepose_untrusted::printable;

use crate::error::FormatError;
use crate::info::{TensorInfo, TensorPart};
use crate::{MAX_AXES, MAX_TENSORS};

/// What holds a tensor's little-endian bytes in row-major order, and keeps them as they are.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Tensors by name.
pub(crate) struct SharedTensors(BTreeMap<String, (TensorInfo, SharedBytes)>);

impl fmt::Debug for SharedTensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedTensors({})", self.0.len())
    }
}

impl SharedTensors {
    /// Checks that every tensor has the bytes of its shape; `path` names them in messages.
    pub fn new(
        path: &Path,
        tensors: BTreeMap<String, (TensorInfo, SharedBytes)>,
    ) -> Result<Self, FormatError> {
        let broken = |what: String| FormatError::NotWeights {
            path: path.to_path_buf(),
            what,
            hint: "give the tensors of a network's state",
        };
        if tensors.is_empty() || tensors.len() > MAX_TENSORS {
            return Err(broken(format!("these are {} tensors", tensors.len())));
        }
        for (name, (info, bytes)) in &tensors {
            let elements =
                TensorInfo::elements_of(&info.shape).filter(|_| info.shape.len() <= MAX_AXES);
            let size = elements.and_then(|elements| elements.checked_mul(info.dtype.bits() / 8));
            let there = (**bytes).as_ref().len();
            if size != Some(there) {
                return Err(broken(format!(
                    "the tensor {} of {} and shape {:?} has {there} bytes",
                    printable(name),
                    info.dtype,
                    info.shape
                )));
            }
        }
        Ok(Self(tensors))
    }

    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.0.iter().map(|(name, (info, _))| (name.as_str(), info))
    }

    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.0.get(name).map(|(info, _)| info)
    }

    pub fn pieces(&self, name: &str, part: TensorPart, take: &mut dyn FnMut(&[u8])) {
        const PIECE: usize = 1 << 20;
        let Some((_, bytes)) = self.0.get(name) else {
            return;
        };
        let bytes = (**bytes).as_ref();
        let size = bytes.len() / part.of;
        bytes[part.index * size..(part.index + 1) * size]
            .chunks(PIECE)
            .for_each(take);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StoredType, TensorFile};

    fn file(shape: &[usize], bytes: Vec<u8>) -> Result<TensorFile, FormatError> {
        let info = TensorInfo {
            dtype: StoredType::F16,
            shape: shape.to_vec(),
        };
        let bytes: SharedBytes = Arc::new(bytes);
        TensorFile::shared("unet".into(), BTreeMap::from([("a".into(), (info, bytes))]))
    }

    #[test]
    fn tensors_are_read_where_they_lie() {
        let file = file(&[2, 2], (0..8).collect()).unwrap();
        assert_eq!(file.info("a").unwrap().shape, [2, 2]);
        let read = |index, of| {
            let mut all = Vec::new();
            file.pieces("a", TensorPart { index, of }, &mut |piece| {
                all.extend_from_slice(piece);
            });
            all
        };
        assert_eq!(read(0, 1), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(read(1, 2), [4, 5, 6, 7]);
        assert_eq!(file.format(), "memory");
    }

    #[test]
    fn bytes_that_do_not_fit_the_shape_are_refused() {
        for shape in [vec![3, 2], vec![usize::MAX, 2], vec![1; MAX_AXES + 1]] {
            let error = file(&shape, vec![0; 8]).unwrap_err().to_string();
            assert!(error.contains("the tensor a of f16"), "{error}");
        }
        let none = TensorFile::shared("unet".into(), BTreeMap::new());
        assert!(none.is_err());
    }
}
