//! Whatever is in a file: it is refused with a short message, or every tensor has the bytes that it claims.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{RngSeed, TestCaseError};

use crate::{MAX_AXES, TensorFile, TensorPart};

/// The same cases each time.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::with_cases(cases)
    }
}

fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    std::fs::read(folder.join(name)).unwrap()
}

fn bytes_of(file: &TensorFile, name: &str, part: TensorPart) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.pieces(name, part, &mut |piece| bytes.extend_from_slice(piece));
    bytes
}

fn refused_or_sound(name: &str, bytes: Vec<u8>) -> Result<(), TestCaseError> {
    let file = match TensorFile::from_bytes(PathBuf::from(name), bytes) {
        Ok(file) => file,
        Err(error) => {
            let message = error.to_string();
            prop_assert!(message.len() < 1024, "{} bytes: {message}", message.len());
            return Ok(());
        }
    };
    for (name, info) in file.tensors() {
        prop_assert!(info.shape.len() <= MAX_AXES);
        let whole = bytes_of(&file, name, TensorPart::WHOLE);
        prop_assert_eq!(whole.len(), info.elements() * info.dtype.bits() / 8);
        if info.shape.first().is_some_and(|rows| rows % 2 == 0) {
            let halves = [0, 1].map(|index| bytes_of(&file, name, TensorPart { index, of: 2 }));
            prop_assert_eq!(halves.concat(), whole);
        }
    }
    Ok(())
}

/// Bytes replaced, a stretch repeated, the end cut off.
fn damage(
    mut bytes: Vec<u8>,
    changes: &[(Index, u8)],
    repeat: Option<(Index, usize)>,
    end: Option<Index>,
) -> Vec<u8> {
    for (at, byte) in changes {
        let at = at.index(bytes.len());
        bytes[at] = *byte;
    }
    if let Some((from, len)) = repeat {
        let from = from.index(bytes.len());
        let stretch = bytes[from..bytes.len().min(from + len)].to_vec();
        bytes.splice(from..from, stretch);
    }
    if let Some(end) = end {
        bytes.truncate(end.index(bytes.len()));
    }
    bytes
}

/// A piece of a pickle: an instruction with what it needs, or any byte.
fn instruction() -> impl Strategy<Value = Vec<u8>> {
    let whole = prop::sample::select(vec![
        &b"]"[..], b"}", b")", b"(", b"t", b"e", b"u", b"s", b"a", b"d", b"l", b"2", b"0", b"1", b"N", b"R", b"Q",
        b"b", b"\x85", b"\x86", b"\x87", b"\x94", b"q\x00", b"q\x01", b"h\x00", b"h\x01", b"K\x02", b"J\xff\xff\xff\xff",
        b"\x8a\x09\x01\x02\x03\x04\x05\x06\x07\x08\x09", b"X\x01\x00\x00\x00a", b"\x8c\x07storage", b"\x8c\x010",
        b"ccollections\nOrderedDict\n", b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch\nFloatStorage\n",
        b"\x8c\x05torch\x8c\x0bHalfStorage\x93",
        b"(\x8c\x07storagectorch\nFloatStorage\n\x8c\x010\x8c\x03cpuK\x10tQ",
        b"ctorch._utils\n_rebuild_tensor_v2\n((\x8c\x07storagectorch\nFloatStorage\n\x8c\x010\x8c\x03cpuK\x10tQK\x00K\x04K\x04\x86K\x04K\x01\x86tR",
    ]);
    prop_oneof![
        12 => whole.prop_map(<[u8]>::to_vec),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ]
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn damaged_safetensors(
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 0..4),
        repeat in prop::option::of((any::<Index>(), 1usize..200)),
        end in prop::option::of(any::<Index>()),
    ) {
        let bytes = fixture("pickle/expected.safetensors");
        // Most of the file is numbers; the header is what can be damaged.
        let header = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
        let mut damaged = damage(bytes[..header].to_vec(), &changes, repeat, end);
        damaged.extend_from_slice(&bytes[header..]);
        refused_or_sound("x.safetensors", damaged)?;
    }

    #[test]
    fn damaged_pytorch_files(
        name in prop::sample::select(vec!["zip.pt", "zip-protocol4.pt", "legacy.pt", "nested.pt"]),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 0..4),
        repeat in prop::option::of((any::<Index>(), 1usize..200)),
        end in prop::option::weighted(0.2, any::<Index>()),
    ) {
        let bytes = fixture(&format!("pickle/{name}"));
        refused_or_sound("x.ckpt", damage(bytes, &changes, repeat, end))?;
    }

    #[test]
    fn pickles_of_any_instructions(instructions in prop::collection::vec(instruction(), 0..60)) {
        let pickle = [&b"\x80\x02}"[..], &instructions.concat(), b"."].concat();
        refused_or_sound("x.ckpt", archive(&pickle))?;
    }

    #[test]
    fn any_bytes(magic in prop::sample::select(vec![&b""[..], b"\x80\x02", b"PK\x03\x04", b"\x10\0\0\0\0\0\0\0{"]),
                 rest in prop::collection::vec(any::<u8>(), 0..300)) {
        for name in ["x", "x.safetensors", "x.ckpt"] {
            refused_or_sound(name, [magic, &rest].concat())?;
        }
    }

    #[test]
    fn what_the_reference_writes_is_read(
        tensors in prop::collection::btree_map("[a-z.]{1,9}", (prop::collection::vec(0usize..4, 0..5), any::<u8>()), 0..6),
    ) {
        let data: BTreeMap<&str, (&[usize], Vec<u8>)> = tensors
            .iter()
            .map(|(name, (shape, byte))| (name.as_str(), (shape.as_slice(), vec![*byte; shape.iter().product::<usize>() * 2])))
            .collect();
        let views = data.iter().map(|(name, (shape, bytes))| {
            let view = ::safetensors::tensor::TensorView::new(::safetensors::Dtype::F16, shape.to_vec(), bytes);
            (*name, view.unwrap())
        });
        let written = ::safetensors::serialize(views, None).unwrap();
        let file = TensorFile::from_bytes("x.safetensors".into(), written);
        // A file without tensors is sound, but no network is in it.
        prop_assert_eq!(file.is_err(), data.is_empty());
        let Ok(file) = file else { return Ok(()) };
        prop_assert_eq!(file.names().collect::<Vec<_>>(), data.keys().copied().collect::<Vec<_>>());
        for (name, (shape, bytes)) in &data {
            prop_assert_eq!(&file.info(name).unwrap().shape, shape);
            prop_assert_eq!(&bytes_of(&file, name, TensorPart::WHOLE), bytes);
        }
    }
}

/// A zip archive with this pickle and a storage of 64 bytes, `0`.
fn archive(pickle: &[u8]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in [("x/data.pkl", pickle), ("x/data/0", &[1; 64])] {
        let offset = archive.len() as u32;
        let size = (content.len() as u32).to_le_bytes();
        let len = (name.len() as u16).to_le_bytes();
        archive.extend(
            [
                &b"PK\x03\x04"[..],
                &[0; 22],
                &len,
                &[0; 2],
                name.as_bytes(),
                content,
            ]
            .concat(),
        );
        directory.extend([&b"PK\x01\x02"[..], &[0; 16], &size, &size, &len, &[0; 12]].concat());
        directory.extend([&offset.to_le_bytes()[..], name.as_bytes()].concat());
    }
    let (start, size) = (archive.len() as u32, directory.len() as u32);
    archive.extend([&directory[..], b"PK\x05\x06\0\0\0\0\x02\0\x02\0"].concat());
    archive.extend([&size.to_le_bytes()[..], &start.to_le_bytes(), &[0; 2]].concat());
    archive
}

/// A few bytes that would make gigabytes, or take hours.
#[test]
fn little_does_not_become_much() {
    let tensor = |rows: &[u8]| {
        let storage = b"(\x8c\x07storagectorch\nFloatStorage\n\x8c\x010\x8c\x03cpuK\x10tQ";
        let call = b"ctorch._utils\n_rebuild_tensor_v2\n(";
        [call, &storage[..], b"K\x00", rows, b"K\x00\x85tR"].concat()
    };
    let named = |value: &[u8]| [&b"\x80\x02}\x8c\x01a"[..], value, b"s."].concat();
    let refused = |pickle: &[u8], why: &str| {
        let error = TensorFile::from_bytes("x.ckpt".into(), archive(pickle)).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    };
    // A storage of 16 numbers shown 2^31 times over.
    refused(
        &named(&tensor(b"\x8a\x05\0\0\0\x80\0\x85")),
        "repeats the same numbers",
    );
    // Nine axes.
    let axes = [&b"("[..], &b"K\x01".repeat(9), b"t"].concat();
    refused(&named(&tensor(&axes)), "a tensor of 9 axes");
    // A long name in front of every tensor in it.
    let long = [&b"X\xd0\x07\0\0"[..], &b"n".repeat(2000)].concat();
    let inner = [&b"}"[..], b"\x8c\x01a", &tensor(b"K\x04\x85"), b"s"].concat();
    refused(
        &[&b"\x80\x02}"[..], &long, &inner, b"s."].concat(),
        "too long",
    );
    // One long list of pairs made into a dictionary again and again.
    let pairs = [&b"]("[..], &b"K\x01K\x02\x86".repeat(1000), b"eq\x00"].concat();
    let calls = b"ccollections\nOrderedDict\nh\x00\x85R".repeat(1000);
    refused(
        &[&b"\x80\x02}"[..], &pairs, &calls, b"."].concat(),
        "again and again",
    );
    // More instructions than any checkpoint has.
    refused(
        &[&b"\x80\x02}"[..], &b"N0".repeat(1 << 21), b"."].concat(),
        "instructions",
    );
}
