//! Where each picture goes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use prepose::output::files::{free_name, parent, prepare_folder, slug};
use prepose::request::Request;

/// The file of each picture. A file may be overwritten when it is named; in a folder a name that is taken gets a number.
///
/// # Errors
/// One file for several pictures, or one that is not a PNG; a folder that cannot be made.
pub fn targets(out: &Path, requests: &[Request]) -> anyhow::Result<Vec<PathBuf>> {
    let named = names_picture(out)?;
    if named {
        ensure!(
            requests.len() == 1,
            "-o {} names one file, but {} pictures were asked for; give a folder, or --grid FILE.png for one sheet of all",
            out.display(),
            requests.len()
        );
        prepare_folder(parent(out))?;
        return Ok(vec![out.to_path_buf()]);
    }
    prepare_folder(out)?;
    let mut taken = HashSet::new();
    let target = |request: &Request| {
        let stem = format!("{}-{}", slug(&request.prompt), request.seed);
        let mut path = free_name(out, &stem);
        let mut n = 2;
        while !taken.insert(path.clone()) {
            path = free_name(out, &format!("{stem}-{n}"));
            n += 1;
        }
        path
    };
    Ok(requests.iter().map(target).collect())
}

/// Whether `path` names a PNG, and not a folder.
///
/// # Errors
/// It names a file of another kind.
pub fn names_picture(path: &Path) -> anyhow::Result<bool> {
    let Some(extension) = path.extension().filter(|_| !path.is_dir()) else {
        return Ok(false);
    };
    if extension.eq_ignore_ascii_case("png") {
        return Ok(true);
    }
    bail!(
        "{} looks like a file, but pictures are written as .png, not .{}",
        path.display(),
        extension.display()
    );
}
