//! `prepose report` on SpatialBench-UC's released files, and on runs made up here: finished, unfinished, in shards, hostile and broken.
//!
//! The page itself is used in a browser by `scripts/report/browser.sh`.

mod made;
mod parts;
mod people;
mod released;
mod whole;
mod wrong;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

const HOSTILE: &str =
    "</script><script>alert(1)</script> <!-- \"quoted\" & 'single' 🐶 {{DATA}} \u{2028}";

fn write(path: PathBuf, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

fn png() -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let picture =
        image::RgbImage::from_fn(32, 32, |x, y| image::Rgb([x as u8 * 8, y as u8 * 8, 90]));
    picture
        .write_to(&mut bytes, image::ImageFormat::Png)
        .unwrap();
    bytes.into_inner()
}

/// The data of a page's pictures.
fn data(html: &str) -> Value {
    let start = "<script type=\"application/json\" id=\"data\">";
    let (_, after) = html.split_once(start).unwrap();
    serde_json::from_str(after.split_once("</script>").unwrap().0).unwrap()
}

fn page(out: &Path) -> String {
    fs::read_to_string(out.join("report.html")).unwrap()
}

/// The rows of a table, without its head.
fn csv(out: &Path, name: &str) -> Vec<Vec<String>> {
    let mut reader = csv::Reader::from_path(out.join(format!("tables/{name}.csv"))).unwrap();
    let rows = reader
        .records()
        .map(|row| row.unwrap().iter().map(Into::into).collect());
    rows.collect()
}
