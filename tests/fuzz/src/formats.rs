//! Files of tensors.

use prepose_formats::{TensorFile, TensorPart};

/// A file that is taken for safetensors.
pub fn safetensors(bytes: &[u8]) {
    open("x.safetensors", bytes.to_vec());
}

/// A file that is taken for what `torch.save` writes: a zip archive or the legacy format.
pub fn pytorch(bytes: &[u8]) {
    open("x.ckpt", bytes.to_vec());
}

/// A pickle in a sound archive beside one storage of 64 bytes, `data/0`.
pub fn pickle(bytes: &[u8]) {
    let files: [(&str, &[u8]); 2] = [("x/data.pkl", bytes), ("x/data/0", &[1; 64])];
    open("x.ckpt", zip(&files));
}

/// What can be said of a file that was opened: every tensor has as many bytes as its shape and type say.
fn open(name: &str, bytes: Vec<u8>) {
    // Of many or large tensors only some are read, so that the fuzzer is not kept waiting.
    const TENSORS: usize = 8;
    const ELEMENTS: usize = 1 << 12;
    let file = match TensorFile::from_bytes(name.into(), bytes) {
        Ok(file) => file,
        Err(error) => {
            let message = error.to_string();
            assert!(message.len() < 4096, "a message of {} bytes", message.len());
            return;
        }
    };
    let small = file
        .tensors()
        .filter(|(_, info)| info.elements() <= ELEMENTS);
    for (name, info) in small.take(TENSORS) {
        let whole = info.elements() * info.dtype.bits() / 8;
        assert_eq!(length(&file, name, TensorPart::WHOLE), whole, "{name}");
        if info.shape.first().is_some_and(|rows| rows % 3 == 0) {
            let last = TensorPart { index: 2, of: 3 };
            let part = info.elements() / 3 * info.dtype.bits() / 8;
            assert_eq!(length(&file, name, last), part, "{name}");
        }
    }
}

fn length(file: &TensorFile, name: &str, part: TensorPart) -> usize {
    let mut length = 0;
    file.pieces(name, part, &mut |piece| length += piece.len());
    length
}

/// A zip archive of these files, not compressed.
fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in files {
        let offset = archive.len() as u32;
        let size = (content.len() as u32).to_le_bytes();
        let name_len = (name.len() as u16).to_le_bytes();
        archive.extend_from_slice(b"PK\x03\x04");
        archive.extend_from_slice(&[0; 22]);
        archive.extend_from_slice(&name_len);
        archive.extend_from_slice(&[0; 2]);
        archive.extend_from_slice(name.as_bytes());
        archive.extend_from_slice(content);
        directory.extend_from_slice(b"PK\x01\x02");
        directory.extend_from_slice(&[0; 16]);
        directory.extend_from_slice(&size);
        directory.extend_from_slice(&size);
        directory.extend_from_slice(&name_len);
        directory.extend_from_slice(&[0; 12]);
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let start = (archive.len() as u32).to_le_bytes();
    let count = (files.len() as u16).to_le_bytes();
    let size = (directory.len() as u32).to_le_bytes();
    archive.extend_from_slice(&directory);
    archive.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    for field in [&count[..], &count, &size, &start, &[0; 2]] {
        archive.extend_from_slice(field);
    }
    archive
}
