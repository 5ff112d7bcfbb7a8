//! safetensors files: a length, a JSON header, the tensors' bytes.
//!
//! Format: <https://github.com/huggingface/safetensors>. The header is read here and not with the
//! crate, because what users need to know about a broken file (cut short by how much? which tensor?)
//! is what the crate's errors leave out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use crate::bytes::FileBytes;
use crate::dtype::StoredType;
use crate::error::WeightsError;
use crate::sniff::MAX_SAFETENSORS_HEADER;
use crate::tensors::TensorInfo;

/// An open safetensors file: its header parsed and checked, its tensors not yet read.
#[derive(Debug)]
pub(crate) struct SafetensorsFile {
    path: PathBuf,
    bytes: FileBytes,
    data_start: usize,
    tensors: BTreeMap<String, (TensorInfo, usize, usize)>,
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
                        header.metadata = map.next_value()?;
                    } else {
                        let entry = map
                            .next_value()
                            .map_err(|err| A::Error::custom(format!("tensor {name}: {err}")))?;
                        header.entries.push((name, entry));
                    }
                }
                Ok(header)
            }
        }
        deserializer.deserialize_map(HeaderVisitor)
    }
}

const AGAIN: &str = "download it again";
const REWRITE: &str =
    "get it from its source again, or have it written anew by the tool that made it";

impl SafetensorsFile {
    /// Parses and checks the header.
    pub fn open(path: &Path, bytes: FileBytes) -> Result<Self, WeightsError> {
        let broken = |what: String, hint| WeightsError::Safetensors {
            path: path.to_path_buf(),
            what,
            hint,
        };
        let all = bytes.as_slice();
        let cut = |needs: u64| {
            broken(
                format!(
                    "it is cut short: {} bytes of {needs}, so a download or a copy stopped early",
                    all.len()
                ),
                AGAIN,
            )
        };

        let length = all
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
        let text = all
            .get(8..data_start)
            .ok_or_else(|| cut(data_start as u64))?;
        let header: Header = serde_json::from_slice(text)
            .map_err(|err| broken(format!("its header is not valid: {err}"), AGAIN))?;

        let mut tensors = BTreeMap::new();
        let mut spans = Vec::with_capacity(header.entries.len());
        for (name, entry) in header.entries {
            let dtype = StoredType::from_safetensors(&entry.dtype).ok_or_else(|| {
                broken(
                    format!("tensor {name} has the unknown type {}", entry.dtype),
                    REWRITE,
                )
            })?;
            let (start, end) = entry.data_offsets;
            let size = entry
                .shape
                .iter()
                .try_fold(1usize, |product, extent| product.checked_mul(*extent))
                .and_then(|elements| elements.checked_mul(dtype.bits()))
                .filter(|bits| bits % 8 == 0)
                .map(|bits| bits / 8);
            if start > end || size != Some(end - start) {
                return Err(broken(
                    format!(
                        "tensor {name} of shape {:?} in {} lies at bytes {start} to {end}, which does not fit \
                         its size",
                        entry.shape, entry.dtype
                    ),
                    REWRITE,
                ));
            }
            spans.push((start, end, name.clone()));
            let info = TensorInfo {
                dtype,
                shape: entry.shape,
            };
            if tensors.insert(name.clone(), (info, start, end)).is_some() {
                return Err(broken(format!("tensor {name} appears twice"), REWRITE));
            }
        }

        spans.sort();
        let mut covered = 0;
        for (start, end, name) in &spans {
            if *start < covered {
                return Err(broken(
                    format!("tensor {name} overlaps another one"),
                    REWRITE,
                ));
            }
            if *start > covered {
                return Err(broken(
                    format!("there are stray bytes before tensor {name}"),
                    REWRITE,
                ));
            }
            covered = *end;
        }
        match data_start.checked_add(covered) {
            Some(needed) if needed <= all.len() => {
                if needed < all.len() {
                    let extra = all.len() - needed;
                    return Err(broken(
                        format!("{extra} stray bytes follow its last tensor"),
                        AGAIN,
                    ));
                }
            }
            needed => return Err(cut(needed.map_or(u64::MAX, |needed| needed as u64))),
        }

        Ok(Self {
            path: path.to_path_buf(),
            bytes,
            data_start,
            tensors,
            metadata: header.metadata,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn embedded_bytes(&self) -> Option<&'static [u8]> {
        match self.bytes {
            FileBytes::Embedded(bytes) => Some(bytes),
            FileBytes::Mapped(_) => None,
        }
    }

    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.tensors
            .iter()
            .map(|(name, (info, ..))| (name.as_str(), info))
    }

    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name).map(|(info, ..)| info)
    }

    /// The free-form `__metadata__` of the header.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Hands the bytes of tensor `name` to `take` in pieces: all of them, or the `index`-th of `of`
    /// equal parts. An unknown name has none.
    pub fn read(&self, name: &str, (index, of): (usize, usize), take: &mut dyn FnMut(&[u8])) {
        if let Some((_, start, end)) = self.tensors.get(name) {
            let part = (end - start) / of;
            let start = self.data_start + start + index * part;
            self.bytes.pieces(start..start + part, take);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(header: &str, data: usize) -> Result<SafetensorsFile, WeightsError> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + data, 1);
        SafetensorsFile::open(
            Path::new("x.safetensors"),
            FileBytes::Embedded(bytes.leak()),
        )
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
        assert_eq!(file.metadata()["format"], "pt");
        let read = |name, part| {
            let mut all = Vec::new();
            file.read(name, part, &mut |piece| all.extend_from_slice(piece));
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
