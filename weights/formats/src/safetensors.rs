//! safetensors files: a length, a JSON header, the tensors' bytes.
//!
//! Format: <https://github.com/huggingface/safetensors>. The header is read here and not with the
//! crate, because what users need to know about a broken file (cut short by how much? which tensor?)
//! is what the crate's errors leave out.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use prepose_untrusted::printable;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use crate::bytes::FileBytes;
use crate::dtype::StoredType;
use crate::error::FormatError;
use crate::info::{TensorInfo, TensorPart};
use crate::sniff::MAX_SAFETENSORS_HEADER;
use crate::{MAX_AXES, MAX_TENSORS};

/// The header of a safetensors file, checked.
#[derive(Debug)]
pub(crate) struct SafetensorsFile {
    /// With the range of their bytes in the file.
    tensors: BTreeMap<String, (TensorInfo, Range<usize>)>,
    metadata: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// The header as it stands, in order and with repeated names, which a map would hide.
struct Header {
    entries: Vec<(String, Entry)>,
    metadata: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HeaderVisitor;
        impl<'de> Visitor<'de> for HeaderVisitor {
            type Value = Header;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("an object of tensors")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut header = Header {
                    entries: Vec::new(),
                    metadata: BTreeMap::new(),
                };
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        header.metadata = map.next_value::<Metadata>()?.0;
                    } else if header.entries.len() == MAX_TENSORS {
                        let many = format!("it has more than {MAX_TENSORS} tensors");
                        return Err(A::Error::custom(many));
                    } else {
                        let entry = map.next_value().map_err(|err| {
                            A::Error::custom(format!("tensor {}: {err}", printable(&name)))
                        })?;
                        header.entries.push((name, entry));
                    }
                }
                Ok(header)
            }
        }
        deserializer.deserialize_map(HeaderVisitor)
    }
}

/// The free-form texts by name.
struct Metadata(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MetadataVisitor;
        impl<'de> Visitor<'de> for MetadataVisitor {
            type Value = Metadata;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("an object of texts")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metadata, A::Error> {
                let mut texts = BTreeMap::new();
                while let Some((name, text)) = map.next_entry()? {
                    texts.insert(name, text);
                    if texts.len() > MAX_TENSORS {
                        let many = format!("its metadata has more than {MAX_TENSORS} entries");
                        return Err(A::Error::custom(many));
                    }
                }
                Ok(Metadata(texts))
            }
        }
        deserializer.deserialize_map(MetadataVisitor)
    }
}

const AGAIN: &str = "download it again";
const REWRITE: &str =
    "get it from its source again, or have it written anew by the tool that made it";

type Broken<'a> = &'a dyn Fn(String, &'static str) -> FormatError;

impl SafetensorsFile {
    /// Parses and checks the header of the file `bytes`; `path` names it in messages.
    pub fn read(path: &Path, bytes: &[u8]) -> Result<Self, FormatError> {
        let broken = |what: String, hint| FormatError::Safetensors {
            path: path.to_path_buf(),
            what,
            hint,
        };
        let cut = |needs: u64| {
            broken(
                format!(
                    "it is cut short: {} bytes of {needs}, so a download or a copy stopped early",
                    bytes.len()
                ),
                AGAIN,
            )
        };

        let length = bytes
            .first_chunk::<8>()
            .map(|bytes| u64::from_le_bytes(*bytes))
            .ok_or_else(|| cut(8))?;
        if length > MAX_SAFETENSORS_HEADER {
            return Err(broken(
                format!("its header claims {length} bytes (HeaderTooLarge)"),
                AGAIN,
            ));
        }
        let data_start = 8 + length as usize;
        let text = bytes
            .get(8..data_start)
            .ok_or_else(|| cut(data_start as u64))?;
        let header: Header = serde_json::from_slice(text).map_err(|err| {
            let err = err.to_string();
            broken(
                format!("its header is not valid: {}", printable(&err)),
                AGAIN,
            )
        })?;

        let mut tensors = BTreeMap::new();
        let mut spans = Vec::with_capacity(header.entries.len());
        for (name, entry) in header.entries {
            let (dtype, (start, end)) = (entry.check(&name, &broken)?, entry.data_offsets);
            spans.push((start, end, name.clone()));
            let info = TensorInfo {
                dtype,
                shape: entry.shape,
            };
            // Saturated only beyond the end, which is found below.
            let range = data_start.saturating_add(start)..data_start.saturating_add(end);
            if tensors.insert(name.clone(), (info, range)).is_some() {
                let what = format!("tensor {} appears twice", printable(&name));
                return Err(broken(what, REWRITE));
            }
        }
        let covered = covered(spans, &broken)?;
        match data_start.checked_add(covered) {
            Some(needed) if needed < bytes.len() => {
                let extra = bytes.len() - needed;
                let what = format!("{extra} stray bytes follow its last tensor");
                Err(broken(what, AGAIN))
            }
            Some(needed) if needed == bytes.len() && tensors.is_empty() => {
                Err(broken("it holds no tensors".into(), REWRITE))
            }
            Some(needed) if needed == bytes.len() => Ok(Self {
                tensors,
                metadata: header.metadata,
            }),
            needed => Err(cut(needed.map_or(u64::MAX, |needed| needed as u64))),
        }
    }

    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.tensors
            .iter()
            .map(|(name, (info, _))| (name.as_str(), info))
    }

    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name).map(|(info, _)| info)
    }

    /// The free-form `__metadata__` of the header.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// See [`TensorFile::pieces`](crate::TensorFile::pieces); `bytes` is the file.
    pub fn pieces(
        &self,
        bytes: &FileBytes,
        name: &str,
        part: TensorPart,
        take: &mut dyn FnMut(&[u8]),
    ) {
        if let Some((_, range)) = self.tensors.get(name) {
            let length = range.len() / part.of;
            let start = range.start + part.index * length;
            bytes.pieces(start..start + length, take);
        }
    }
}

impl Entry {
    /// The type of the tensor `name`, if its size is that of its bytes.
    fn check(&self, name: &str, broken: Broken) -> Result<StoredType, FormatError> {
        let name = printable(name);
        let dtype = StoredType::from_safetensors(&self.dtype).ok_or_else(|| {
            let what = format!(
                "tensor {name} has the unknown type {}",
                printable(&self.dtype)
            );
            broken(what, REWRITE)
        })?;
        if self.shape.len() > MAX_AXES {
            let axes = self.shape.len();
            let what = format!("tensor {name} has {axes} axes, and at most {MAX_AXES} are read");
            return Err(broken(what, REWRITE));
        }
        let (start, end) = self.data_offsets;
        let size = TensorInfo::elements_of(&self.shape)
            .and_then(|elements| elements.checked_mul(dtype.bits()))
            .filter(|bits| bits % 8 == 0)
            .map(|bits| bits / 8);
        if start > end || size != Some(end - start) {
            let what = format!(
                "tensor {name} of shape {:?} in {} lies at bytes {start} to {end}, which does not fit its size",
                self.shape, self.dtype
            );
            return Err(broken(what, REWRITE));
        }
        Ok(dtype)
    }
}

/// How many bytes tensors at these places (start, end, name) cover, if they lie one after the other.
fn covered(mut spans: Vec<(usize, usize, String)>, broken: Broken) -> Result<usize, FormatError> {
    spans.sort();
    let mut covered = 0;
    for (start, end, name) in &spans {
        let name = printable(name);
        let what = match start.cmp(&covered) {
            Ordering::Less => format!("tensor {name} overlaps another one"),
            Ordering::Greater => format!("there are stray bytes before tensor {name}"),
            Ordering::Equal => {
                covered = *end;
                continue;
            }
        };
        return Err(broken(what, REWRITE));
    }
    Ok(covered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TensorFile;

    fn open(header: &str, data: usize) -> Result<TensorFile, FormatError> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + data, 1);
        TensorFile::from_bytes("x.safetensors".into(), bytes)
    }

    #[test]
    fn a_sound_file() {
        let file = open(
            r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F16","shape":[2,3],"data_offsets":[4,16]},
                "b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}"#,
            16,
        )
        .unwrap();
        assert_eq!(
            file.tensors().map(|(name, _)| name).collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert_eq!(file.info("a").unwrap().shape, [2, 3]);
        assert_eq!(file.metadata().unwrap()["format"], "pt");
        let read = |name, (index, of)| {
            let mut all = Vec::new();
            let part = TensorPart { index, of };
            file.pieces(name, part, &mut |piece| all.extend_from_slice(piece));
            all
        };
        assert_eq!(read("a", (0, 1)), [1; 12]);
        assert_eq!(read("a", (1, 2)), [1; 6]);
        assert!(read("c", (0, 1)).is_empty());
    }

    #[test]
    fn broken_headers_are_named() {
        for (header, data, message) in [
            (
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#,
                5,
                "cut short: 67 bytes of 70",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#,
                9,
                "1 stray bytes",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}}"#,
                9,
                "does not fit its size",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
                8,
                "does not fit its size",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[18446744073709551615,2],"data_offsets":[0,8]}}"#,
                8,
                "does not fit",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[18446744073709551615,2,0],"data_offsets":[0,0]}}"#,
                0,
                "does not fit",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}}"#,
                8,
                "a has 9 axes",
            ),
            (
                r#"{"a":{"dtype":"Q3","shape":[2],"data_offsets":[0,8]}}"#,
                8,
                "unknown type Q3",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}"#,
                8,
                "header is not valid: tensor a",
            ),
            (r#"{"a":{"dtype":"F32""#, 8, "header is not valid"),
            ("{}", 0, "it holds no tensors"),
            (
                r#"{"__metadata__":{"format":"pt"}}"#,
                0,
                "it holds no tensors",
            ),
            (
                r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}"#,
                6,
                "b overlaps",
            ),
            (
                r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}}"#,
                6,
                "stray bytes before tensor b",
            ),
            (
                r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}"#,
                8,
                "a appears twice",
            ),
        ] {
            let error = open(header, data).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
            assert!(
                error.starts_with("x.safetensors: ") && error.contains("; "),
                "{error}"
            );
        }
    }
}
