//! Run folders whose reports the page shows. What can be asked for is a list of files that was made here: a client's path is
//! only ever looked up in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Files of a run that are looked at, at most.
const MOST: usize = 200_000;

/// The folder that holds run folders.
#[derive(Clone, Debug)]
pub struct Runs(pub PathBuf);

impl Runs {
    /// The runs there are, by name.
    fn folders(&self) -> BTreeMap<String, PathBuf> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let runs = entries.filter(|entry| entry.path().join("run.json").is_file());
        let named =
            runs.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())));
        named.collect()
    }

    /// What `GET api/runs` says.
    pub fn list(&self) -> Value {
        let runs: Vec<Value> = (self.folders().into_iter())
            .map(|(name, folder)| {
                let manifest = std::fs::read_to_string(folder.join("manifest.jsonl")).unwrap_or_default();
                json!({
                    "name": name, "pictures": manifest.lines().count(), "report": report(&folder).is_some(),
                })
            })
            .collect();
        json!({"runs": runs})
    }

    /// A file of a run with a report: its bytes and media type. The empty path is the report's page, which stands in a folder of
    /// its own and shows pictures beside that.
    pub fn file(&self, run: &str, path: &str) -> Option<(Vec<u8>, &'static str)> {
        let folder = self.folders().remove(run)?;
        let page = report(&folder)?;
        let found = match path {
            "" => page,
            _ => files(&folder).remove(path)?,
        };
        let kind = match found.extension()?.to_str()? {
            "html" => "text/html; charset=utf-8",
            "png" => "image/png",
            "jpg" | "jpeg" => "image/jpeg",
            "webp" => "image/webp",
            "svg" => "image/svg+xml",
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "json" => "application/json",
            "csv" | "md" | "txt" | "jsonl" => "text/plain; charset=utf-8",
            _ => return None,
        };
        Some((std::fs::read(found).ok()?, kind))
    }
}

/// The page of a run's report.
fn report(folder: &Path) -> Option<PathBuf> {
    let places = [
        "report/index.html",
        "report/report.html",
        "report.html",
        "index.html",
    ];
    let mut places = places.iter().map(|place| folder.join(place));
    places.find(|path| path.is_file())
}

/// Every file below a folder, by its path from there with `/`; links are not followed.
fn files(root: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut folders = vec![(String::new(), root.to_path_buf())];
    while let Some((name, folder)) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let (Ok(kind), Ok(own)) = (entry.file_type(), entry.file_name().into_string()) else {
                continue;
            };
            let name = format!("{name}{own}");
            if kind.is_dir() {
                folders.push((format!("{name}/"), entry.path()));
            } else if kind.is_file() && found.len() < MOST {
                found.insert(name, entry.path());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_shows_the_pictures_beside_it_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("secret.png", "outside");
        write("tour/run.json", "{}");
        write("tour/manifest.jsonl", "{}\n{}\n");
        write("tour/report/report.html", "the page");
        write("tour/report/plots/a.svg", "a plot");
        write("tour/plain/images/a.png", "a picture");
        let runs = Runs(folder.path().to_path_buf());
        let read = |path: &str| runs.file("tour", path).map(|(bytes, _)| bytes);
        assert_eq!(read(""), Some(b"the page".to_vec()));
        assert_eq!(read("report/plots/a.svg"), Some(b"a plot".to_vec()));
        assert_eq!(read("plain/images/a.png"), Some(b"a picture".to_vec()));
        for path in ["../secret.png", "/secret.png", "report/../../secret.png"] {
            assert_eq!(read(path), None, "{path}");
        }
        assert_eq!(runs.list()["runs"][0]["pictures"], 2);
    }
}
