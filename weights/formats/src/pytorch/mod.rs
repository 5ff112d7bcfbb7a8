//! PyTorch's own files: `.ckpt`, `.pt`, `.pth`, `.bin`, as `torch.save` writes them since PyTorch
//! 1.6 (a zip archive) and wrote them before (pickles one after the other, then the numbers).
//!
//! Nothing in a file is run, see [`pickle`].

mod machine;
mod objects;
mod opcodes;
mod pickle;
mod tensor;
mod value;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use prepose_untrusted::printable;

use crate::MAX_TENSORS;
use crate::bytes::FileBytes;
use crate::error::FormatError;
use crate::info::{TensorInfo, TensorPart};
use crate::sniff::Content;
use crate::zip;
use machine::Machine;
use tensor::{Placed, TensorRef};
use value::{Fault, Step, Value};

/// The tensors of a PyTorch checkpoint.
#[derive(Debug)]
pub(crate) struct PytorchFile {
    tensors: BTreeMap<String, Placed>,
}

/// Where trainers put the weights when they save more than those.
const STATE_DICT: &str = "state_dict";

/// Deeper than any checkpoint nests its dictionaries.
const DEPTH: usize = 8;

/// The most bytes in a tensor's name, far beyond any checkpoint.
const MAX_NAME: usize = 1 << 10;

const ANOTHER_SIZE: &str = "a storage has another size than the file says elsewhere";
const DISTRUST: &str = "delete it, and get the checkpoint from a source that you trust";
const AGAIN: &str = "download it again, or use the safetensors version of this checkpoint";

impl PytorchFile {
    /// Reads what the file `bytes` says about its tensors; `path` names it in messages.
    pub fn read(path: &Path, bytes: &[u8], content: Content) -> Result<Self, FormatError> {
        read(bytes, content).map_err(|fault| {
            let (what, hint) = match fault {
                Fault::Damaged(what) => (what, AGAIN),
                Fault::Attack(name) => (
                    format!(
                        "it would run {} in Python, as an attack does; nothing was run",
                        printable(&name)
                    ),
                    DISTRUST,
                ),
            };
            FormatError::Pytorch {
                path: path.to_path_buf(),
                what,
                hint,
            }
        })
    }

    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.tensors
            .iter()
            .map(|(name, tensor)| (name.as_str(), &tensor.info))
    }

    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name).map(|tensor| &tensor.info)
    }

    /// See [`TensorFile::pieces`](crate::TensorFile::pieces); `bytes` is the file.
    pub fn pieces(
        &self,
        bytes: &FileBytes,
        name: &str,
        part: TensorPart,
        take: &mut dyn FnMut(&[u8]),
    ) {
        let Some(tensor) = self.tensors.get(name) else {
            return;
        };
        let count = tensor.info.elements() / part.of;
        let (first, last) = (part.index * count, (part.index + 1) * count);
        if let Some(range) = tensor.contiguous(first, last) {
            bytes.pieces(range, take);
            return;
        }
        let mut piece = Vec::with_capacity(count * tensor.width());
        for element in first..last {
            piece.extend_from_slice(&bytes.as_slice()[tensor.element(element)]);
        }
        take(&piece);
    }
}

fn read(bytes: &[u8], content: Content) -> Step<PytorchFile> {
    let mut machine = Machine::default();
    let (root, storages) = match content {
        Content::Zip => read_zip(bytes, &mut machine),
        _ => read_legacy(bytes, &mut machine),
    }?;
    let Value::Dict(mut root) = root else {
        return Err("it holds no dictionary of tensors".into());
    };
    for (key, value) in &machine.dicts[root] {
        if let (Value::Str(key), Value::Dict(inner)) = (key, value)
            && &**key == STATE_DICT
        {
            root = *inner;
            break;
        }
    }
    let mut found = BTreeMap::new();
    collect(&machine, root, "", DEPTH, &mut HashSet::new(), &mut found)?;
    let mut tensors = BTreeMap::new();
    for (name, tensor) in found {
        let storage = storages.get(&*tensor.storage).unwrap_or(&(0..0));
        let placed = tensor
            .place(storage)
            .map_err(|what| format!("tensor {} {what}", printable(&name)))?;
        tensors.insert(name, placed);
    }
    if tensors.is_empty() {
        return Err("it holds no tensors".into());
    }
    Ok(PytorchFile { tensors })
}

/// The tensors in the dictionary `dict` and in those inside it, with dotted names. A dictionary that
/// appears again, perhaps inside itself, is left out.
fn collect<'m>(
    machine: &'m Machine,
    dict: usize,
    prefix: &str,
    depth: usize,
    seen: &mut HashSet<usize>,
    found: &mut BTreeMap<String, &'m TensorRef>,
) -> Step<()> {
    if depth == 0 || !seen.insert(dict) {
        return Ok(());
    }
    for (key, value) in &machine.dicts[dict] {
        let (Value::Tensor(_) | Value::Dict(_)) = value else {
            continue;
        };
        let name = match key {
            Value::Str(key) if prefix.len() + key.len() > MAX_NAME => {
                let name = printable(key);
                return Err(format!("{name} is too long for the name of a tensor").into());
            }
            Value::Str(key) => format!("{prefix}{key}"),
            Value::Int(key) => format!("{prefix}{key}"),
            _ => continue,
        };
        match value {
            Value::Dict(inner) => {
                let prefix = format!("{name}.");
                collect(machine, *inner, &prefix, depth - 1, seen, found)?;
            }
            Value::Tensor(tensor) => _ = found.insert(name, tensor),
            _ => {}
        }
        if found.len() > MAX_TENSORS {
            return Err(format!("it holds more than {MAX_TENSORS} tensors").into());
        }
    }
    Ok(())
}

/// What a file holds, and where its storages lie.
type Contents = Step<(Value, HashMap<String, Range<usize>>)>;

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
    let storages: HashMap<_, _> = entries
        .iter()
        .filter_map(|(name, range)| Some((name.strip_prefix(&data)?.to_string(), range.clone())))
        .collect();
    for (key, (dtype, elements)) in &machine.storages {
        // Of bytes without a type, versions of PyTorch count different things.
        if let (Some(range), Some(dtype)) = (storages.get(&**key), dtype)
            && elements.checked_mul(dtype.bits() / 8) != Some(range.len())
        {
            return Err(ANOTHER_SIZE.into());
        }
    }
    Ok((value, storages))
}

fn read_legacy(bytes: &[u8], machine: &mut Machine) -> Contents {
    let mut at = 0;
    let mut next = |machine: &mut Machine| -> Step<Value> {
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
                && &**key == "little_endian"
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
                "it is cut short at {} bytes: a download or a copy stopped early",
                bytes.len()
            )
        })?;
        let stored = bytes[at..start].try_into().map(u64::from_le_bytes);
        if stored.ok() != Some(*elements as u64) {
            return Err(ANOTHER_SIZE.into());
        }
        storages.insert(key.to_string(), start..end);
        at = end;
    }
    Ok((root, storages))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use half::{bf16, f16};

    use super::*;
    use crate::{StoredType, TensorFile};

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fixtures/pickle")
            .join(name)
    }

    fn values(file: &TensorFile, name: &str) -> Vec<f64> {
        let mut bytes = Vec::new();
        file.pieces(name, TensorPart::WHOLE, &mut |piece| {
            bytes.extend_from_slice(piece)
        });
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
            let file = TensorFile::open(&path).unwrap();
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
            let error = TensorFile::open(&path).unwrap_err().to_string();
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
