//! Sheets of pictures as PNGs that carry the request of each.

use std::path::Path;

use super::files::write_atomically;
use super::png::{PngError, encode_with_texts};
use crate::picture::Picture;
use crate::request::Request;

/// The chunk with the requests as JSON.
const KEYWORD: &str = "prepose-sheet";

/// Writes a sheet to `path` with its labels, and the request of each of its cells, row by row; all of it or nothing.
///
/// # Errors
/// It cannot be encoded or written.
pub fn save(
    path: &Path,
    sheet: &Picture,
    columns: &[String],
    rows: &[String],
    requests: &[Vec<Request>],
) -> Result<(), PngError> {
    let text = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "columns": columns,
        "rows": rows,
        "requests": requests,
    });
    let bytes = encode_with_texts(sheet, [(KEYWORD, text.to_string())]);
    let bytes = bytes.map_err(|source| PngError::Encode {
        path: path.into(),
        source,
    })?;
    Ok(write_atomically(path, &bytes)?)
}
