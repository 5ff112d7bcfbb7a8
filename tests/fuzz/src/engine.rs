//! Files that the engine reads: pictures with their requests, requests, methods, and prompts.

use std::io::Write as _;

use prepose::output::png::{read_info, read_request};
use prepose::request::{PicturePrompt, Request};
use prepose::suite::method::Method;
use prepose::suite::sets;

use crate::text_of;

/// A file with this ending that has these bytes.
fn file(ending: &str, bytes: &[u8]) -> Option<tempfile::NamedTempFile> {
    let named = tempfile::Builder::new().suffix(ending).tempfile();
    let mut file = named.ok()?;
    file.write_all(bytes).ok()?;
    Some(file)
}

/// Every request that is read can be written, and is read as the same.
fn is_whole(request: &Request) {
    let written = serde_json::to_value(request).expect("requests are written");
    let again: Request = serde_json::from_value(written).expect("what was written is read");
    assert_eq!(again, *request);
    let _ = request.validate(8);
}

/// A PNG with a request, its checksums made right: a fuzzer does not find any.
pub fn pictures(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    mend_checksums(&mut bytes);
    let Some(file) = file(".png", &bytes) else {
        return;
    };
    let request = read_request(file.path());
    if let Ok(request) = &request {
        is_whole(request);
    }
    assert!(request.is_err() || read_info(file.path()).is_ok());
}

/// A request as JSON, as pictures carry it and servers take it, and a picture as `--ip-picture` takes it.
pub fn requests(bytes: &[u8]) {
    let Some(text) = text_of(bytes) else { return };
    if let Ok(request) = serde_json::from_str::<Request>(text) {
        is_whole(&request);
    }
    let _ = text.parse::<PicturePrompt>();
}

/// A file of methods.
pub fn methods(bytes: &[u8]) {
    let Some(text) = text_of(bytes) else { return };
    if let Ok(methods) = Method::from_toml(text) {
        let _ = Method::check_names(&methods);
    }
}

/// A file of prompts, in each of the forms.
pub fn prompts(bytes: &[u8]) {
    for ending in [".jsonl", ".csv", ".txt"] {
        let Some(file) = file(ending, bytes) else {
            return;
        };
        let Ok(suite) = sets::open(&file.path().to_string_lossy()) else {
            continue;
        };
        for prompt in &suite.prompts {
            let count = prompt.objects.len();
            for stated in &prompt.relations {
                let mut objects = stated.objects.iter().chain([&stated.subject]);
                assert!(objects.all(|&index| index < count), "{prompt:?}");
            }
        }
    }
}

/// Writes the right checksum (CRC-32) behind each chunk, as far as lengths lead.
fn mend_checksums(bytes: &mut [u8]) {
    let mut at = 8;
    while let Some(length) = bytes.get(at..at + 4) {
        let length = length.try_into().map(u32::from_be_bytes);
        let end = at + 8 + length.unwrap_or_default() as usize;
        if end + 4 > bytes.len() {
            return;
        }
        let sum = crc32fast::hash(&bytes[at + 4..end]);
        bytes[end..end + 4].copy_from_slice(&sum.to_be_bytes());
        at = end + 4;
    }
}
