//! PyTorch's own files: `.ckpt`, `.pt`, `.pth`, `.bin`, as `torch.save` writes them since PyTorch
//! 1.6 (a zip archive) and wrote them before (pickles one after the other, then the numbers).
//!
//! Nothing in a file is run, see [`pickle`].

mod objects;
mod pickle;
mod zip;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::bytes::FileBytes;
use crate::dtype::StoredType;
use crate::error::WeightsError;
use crate::sniff::Content;
use crate::tensors::TensorInfo;
use pickle::{Fault, Machine, Value};

/// A tensor as a view of a storage, in elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorRef {
    storage: String,
    dtype: StoredType,
    offset: usize,
    shape: Vec<usize>,
    stride: Vec<usize>,
}

/// An open PyTorch checkpoint.
#[derive(Debug)]
pub(crate) struct PytorchFile {
    path: PathBuf,
    bytes: FileBytes,
    /// With the first byte of each tensor's first element.
    tensors: BTreeMap<String, (TensorInfo, TensorRef, usize)>,
}

/// Where trainers put the weights when they save more than those.
const STATE_DICT: &str = "state_dict";

/// Deeper than any checkpoint nests its dictionaries.
const DEPTH: usize = 8;

const DISTRUST: &str = "delete it, and get the checkpoint from a source that you trust";
const AGAIN: &str = "download it again, or use the safetensors version of this checkpoint";

impl PytorchFile {
    pub fn open(path: &Path, content: Content) -> Result<Self, WeightsError> {
        let bytes = FileBytes::map(path)?;
        let broken = |fault: Fault| {
            let (what, hint) = match fault {
                Fault::Damaged(what) => (what, AGAIN),
                Fault::Attack(name) => (
                    format!("it would run {name} in Python, as an attack does; nothing was run"),
                    DISTRUST,
                ),
            };
            WeightsError::Pytorch {
                path: path.to_path_buf(),
                what,
                hint,
            }
        };
        let mut machine = Machine::default();
        let (root, storages) = match content {
            Content::Zip => read_zip(bytes.as_slice(), &mut machine),
            _ => read_legacy(bytes.as_slice(), &mut machine),
        }
        .map_err(broken)?;

        let Value::Dict(mut root) = root else {
            return Err(broken("it holds no dictionary of tensors".into()));
        };
        for (key, value) in &machine.dicts[root] {
            if let (Value::Str(key), Value::Dict(inner)) = (key, value)
                && key == STATE_DICT
            {
                root = *inner;
                break;
            }
        }
        let mut found = Vec::new();
        collect(&machine, root, "", DEPTH, &mut HashSet::new(), &mut found);
        let mut tensors = BTreeMap::new();
        for (name, tensor) in found {
            let storage = storages.get(&tensor.storage);
            let start = storage
                .and_then(|storage| tensor.start(storage))
                .ok_or_else(|| {
                    broken(
                        format!("tensor {name} reaches beyond its bytes, or they are missing")
                            .into(),
                    )
                })?;
            let info = TensorInfo {
                dtype: tensor.dtype,
                shape: tensor.shape.clone(),
            };
            tensors.insert(name, (info, tensor, start));
        }
        if tensors.is_empty() {
            return Err(broken("it holds no tensors".into()));
        }
        Ok(Self {
            path: path.to_path_buf(),
            bytes,
            tensors,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.tensors
            .iter()
            .map(|(name, (info, ..))| (name.as_str(), info))
    }

    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name).map(|(info, ..)| info)
    }

    /// As [`crate::safetensors::SafetensorsFile::read`], in row-major order whatever the strides.
    pub fn read(&self, name: &str, (index, of): (usize, usize), take: &mut dyn FnMut(&[u8])) {
        let Some((_, tensor, start)) = self.tensors.get(name) else {
            return;
        };
        let width = tensor.dtype.bits() / 8;
        let elements = tensor.shape.iter().product::<usize>();
        let (first, last) = (index * (elements / of), (index + 1) * (elements / of));
        if tensor.is_contiguous() {
            self.bytes
                .pieces(start + first * width..start + last * width, take);
            return;
        }
        let bytes = self.bytes.as_slice();
        let mut piece = Vec::with_capacity((last - first) * width);
        for element in first..last {
            let at = start + tensor.element(element) * width;
            piece.extend_from_slice(&bytes[at..at + width]);
        }
        take(&piece);
    }
}

impl TensorRef {
    /// The byte where it starts within the file, if all of it lies in `storage`.
    fn start(&self, storage: &Range<usize>) -> Option<usize> {
        let width = self.dtype.bits() / 8;
        let start = storage.start.checked_add(self.offset.checked_mul(width)?)?;
        let mut reach: usize = 1;
        for (extent, stride) in self.shape.iter().zip(&self.stride) {
            if *extent == 0 {
                reach = 0;
                break;
            }
            reach = reach.checked_add((extent - 1).checked_mul(*stride)?)?;
        }
        // Strides of 0 can make much of little; no weight has that many numbers.
        let elements = self
            .shape
            .iter()
            .try_fold(1usize, |product, extent| product.checked_mul(*extent))?;
        let end = start.checked_add(reach.checked_mul(width)?)?;
        (end <= storage.end && elements <= 1 << 34).then_some(start)
    }

    fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.shape
            .iter()
            .zip(&self.stride)
            .rev()
            .all(|(extent, stride)| {
                let fits = *extent == 1 || *stride == expected;
                expected *= extent;
                fits
            })
    }

    /// The position in the storage, after the offset, of the element with this row-major number.
    fn element(&self, mut number: usize) -> usize {
        let mut position = 0;
        for (extent, stride) in self.shape.iter().zip(&self.stride).rev() {
            position += number % extent * stride;
            number /= extent;
        }
        position
    }
}

/// The tensors in the dictionary `dict` and in those inside it, with dotted names. A dictionary that
/// appears again, perhaps inside itself, is left out.
fn collect(
    machine: &Machine,
    dict: usize,
    prefix: &str,
    depth: usize,
    seen: &mut HashSet<usize>,
    found: &mut Vec<(String, TensorRef)>,
) {
    if depth == 0 || !seen.insert(dict) {
        return;
    }
    for (key, value) in &machine.dicts[dict] {
        let key = match key {
            Value::Str(key) => key.clone(),
            Value::Int(key) => key.to_string(),
            _ => continue,
        };
        match value {
            Value::Tensor(tensor) => found.push((format!("{prefix}{key}"), tensor.clone())),
            Value::Dict(inner) => {
                collect(
                    machine,
                    *inner,
                    &format!("{prefix}{key}."),
                    depth - 1,
                    seen,
                    found,
                );
            }
            _ => {}
        }
    }
}

/// What a file holds, and where its storages lie.
type Contents = Result<(Value, HashMap<String, Range<usize>>), Fault>;

fn read_zip(bytes: &[u8], machine: &mut Machine) -> Contents {
    let entries = zip::entries(bytes)?;
    let pickle = entries
        .keys()
        .filter(|name| *name == "data.pkl" || name.ends_with("/data.pkl"));
    let pickle = pickle
        .min_by_key(|name| name.len())
        .ok_or("this zip archive is not PyTorch's: it has no data.pkl")?;
    let root = pickle.strip_suffix("data.pkl").unwrap_or_default();
    let order = entries.get(&format!("{root}byteorder"));
    if order.is_some_and(|order| bytes[order.clone()].trim_ascii() == b"big") {
        return Err("its numbers are big-endian".into());
    }
    let value = machine.run(&bytes[entries[pickle].clone()])?.0;
    let data = format!("{root}data/");
    let storages = entries
        .iter()
        .filter_map(|(name, range)| Some((name.strip_prefix(&data)?.to_string(), range.clone())))
        .collect();
    Ok((value, storages))
}

fn read_legacy(bytes: &[u8], machine: &mut Machine) -> Contents {
    let mut at = 0;
    let mut next = |machine: &mut Machine| -> Result<Value, Fault> {
        let (value, len) = machine.run(&bytes[at..])?;
        at += len;
        Ok(value)
    };
    // 0x1950a86a20f9469cfc6c needs more than 64 bits; a bare pickle starts with something else.
    let Value::Opaque = next(machine)? else {
        return Err("this pickle is not a checkpoint that PyTorch saved".into());
    };
    if !matches!(next(machine)?, Value::Int(1001)) {
        return Err("this pickle is not a checkpoint that PyTorch saved".into());
    }
    if let Value::Dict(system) = next(machine)? {
        for (key, value) in &machine.dicts[system] {
            if let (Value::Str(key), Value::Bool(false)) = (key, value)
                && key == "little_endian"
            {
                return Err("its numbers are big-endian".into());
            }
        }
    }
    let root = next(machine)?;
    let Value::List(keys) = next(machine)? else {
        return Err("the list of its storages is missing".into());
    };
    // Each storage: its number of elements in 8 bytes, then these.
    let mut storages = HashMap::new();
    for key in &machine.lists[keys] {
        let Value::Str(key) = key else {
            return Err("a storage has no name".into());
        };
        let (dtype, elements) = machine
            .storages
            .get(key)
            .ok_or("a storage belongs to nothing")?;
        let width = dtype.map_or(1, |dtype| dtype.bits() / 8);
        let start = at + 8;
        let end = elements
            .checked_mul(width)
            .and_then(|len| start.checked_add(len));
        let end = end.filter(|end| *end <= bytes.len()).ok_or_else(|| {
            format!(
                "it is cut short: {} bytes of more, so a download or a copy stopped early",
                bytes.len()
            )
        })?;
        let stored = bytes[at..start].try_into().map(u64::from_le_bytes);
        if stored.ok() != Some(*elements as u64) {
            return Err("a storage has another size than the file says elsewhere".into());
        }
        storages.insert(key.clone(), start..end);
        at = end;
    }
    Ok((root, storages))
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::sniff::sniff;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../fixtures/pickle")
            .join(name)
    }

    fn values(file: &PytorchFile, name: &str) -> Vec<f64> {
        let mut bytes = Vec::new();
        file.read(name, (0, 1), &mut |piece| bytes.extend_from_slice(piece));
        fn decode<const N: usize>(bytes: &[u8], one: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            bytes
                .as_chunks::<N>()
                .0
                .iter()
                .map(|chunk| one(*chunk))
                .collect()
        }
        match file.info(name).unwrap().dtype {
            StoredType::F64 => decode(&bytes, f64::from_le_bytes),
            StoredType::F32 => decode(&bytes, |b| f32::from_le_bytes(b).into()),
            StoredType::F16 => decode(&bytes, |b| f16::from_le_bytes(b).into()),
            StoredType::Bf16 => decode(&bytes, |b| bf16::from_le_bytes(b).into()),
            StoredType::Other("I64", _) => decode(&bytes, |b| i64::from_le_bytes(b) as f64),
            StoredType::Other("I32", _) => decode(&bytes, |b| i32::from_le_bytes(b).into()),
            StoredType::Other("I16", _) => decode(&bytes, |b| i16::from_le_bytes(b).into()),
            StoredType::Other("I8", _) => decode(&bytes, |b| i8::from_le_bytes(b).into()),
            StoredType::Other(..) => bytes.into_iter().map(f64::from).collect(),
        }
    }

    #[test]
    fn every_type_and_layout() {
        let expected = std::fs::read(fixture("expected.safetensors")).unwrap();
        let expected = ::safetensors::SafeTensors::deserialize(&expected).unwrap();
        for name in ["zip.pt", "zip-protocol4.pt", "legacy.pt", "nested.pt"] {
            let path = fixture(name);
            let file = PytorchFile::open(&path, sniff(&path).unwrap()).unwrap();
            assert_eq!(file.tensors().count(), expected.len(), "{name}");
            for (tensor, view) in expected.tensors() {
                assert_eq!(
                    file.info(&tensor).unwrap().shape,
                    view.shape(),
                    "{name}: {tensor}"
                );
                let reference: Vec<f64> = view
                    .data()
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|b| f32::from_le_bytes(*b).into())
                    .collect();
                let found: Vec<f64> = values(&file, &tensor)
                    .iter()
                    .map(|value| f64::from(*value as f32))
                    .collect();
                assert_eq!(found, reference, "{name}: {tensor}");
            }
        }
    }

    #[test]
    fn attacks_are_named() {
        for name in ["evil.pt", "evil-legacy.pt", "evil-plain.pkl", "sneaky.pt"] {
            let path = fixture(name);
            let error = PytorchFile::open(&path, sniff(&path).unwrap())
                .unwrap_err()
                .to_string();
            println!("{error}");
            assert!(error.contains("nothing was run"), "{error}");
        }
    }

    #[test]
    fn garbage_is_an_error() {
        // Every prefix of a pickle, and every byte of one changed: no panic, whatever comes out.
        let path = fixture("zip.pt");
        let bytes = std::fs::read(&path).unwrap();
        let entries = zip::entries(&bytes).unwrap();
        let (_, range) = entries
            .iter()
            .find(|(name, _)| name.ends_with("data.pkl"))
            .unwrap();
        let pickle = &bytes[range.clone()];
        for len in 0..pickle.len() {
            assert!(Machine::default().run(&pickle[..len]).is_err());
        }
        for at in 0..pickle.len() {
            let mut changed = pickle.to_vec();
            for value in [0, 0x29, 0x52, 0x65, 0x75, 0xff] {
                changed[at] = value;
                let _ = Machine::default().run(&changed);
            }
        }
        for len in (0..bytes.len()).step_by(97) {
            let _ = zip::entries(&bytes[..len]);
        }
    }
}
