//! What lies in a location.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::{json, open, text};
use crate::error::{SourceError, broken};
use crate::judged::{self, Judged};
use crate::lines;
use prepose_check::prompt::SuitePrompt;
use prepose_check::shards;
use prepose_store::Store;

/// A run, or a folder of methods.
pub(super) struct Found {
    pub store: Arc<dyn Store>,
    /// The run's folder within the store, with a slash at its end; empty for the root.
    root: String,
    /// All files of the store.
    pub files: HashSet<String>,
    /// `run.json` without its shard.
    pub config: Option<Value>,
    /// Which part of the run this is, and of how many.
    pub shard: Option<(usize, usize)>,
    /// Name and folder within the store.
    pub methods: Vec<(String, String)>,
}

/// The runs in a location: one, or a run's shards.
pub(super) fn find(location: &str) -> Result<Vec<Found>, SourceError> {
    let store = open(location)?;
    let files: HashSet<String> = store
        .list("")?
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    let nothing = |why: &str| SourceError::Nothing {
        location: location.into(),
        why: why.into(),
    };
    if files.is_empty() {
        return Err(nothing("it is empty, or not there"));
    }
    let mut folders: Vec<&str> = files
        .iter()
        .filter_map(|name| method_folder(name))
        .collect();
    folders.sort_unstable();
    folders.dedup();
    let found = |root: &str, methods: Vec<(String, String)>| {
        let mut config = json(store.as_ref(), &format!("{root}run.json"))?;
        let shard = config.as_mut().and_then(take_shard);
        Ok::<_, SourceError>(Found {
            store: store.clone(),
            root: root.into(),
            files: files.clone(),
            config,
            shard,
            methods,
        })
    };
    if files.contains("run.json") {
        return Ok(vec![found("", Vec::new())?.with_methods_of_config()?]);
    }
    let mut shards: Vec<&str> = files
        .iter()
        .filter_map(|name| name.strip_suffix("/run.json"))
        .filter(|folder| !folder.contains('/') && folder.starts_with("shard-"))
        .collect();
    shards.sort_unstable();
    if !shards.is_empty() {
        return shards
            .into_iter()
            .map(|shard| found(&format!("{shard}/"), Vec::new())?.with_methods_of_config())
            .collect();
    }
    if folders.contains(&"") {
        return Ok(vec![found("", vec![(own_name(location), String::new())])?]);
    }
    let direct = folders.iter().filter(|folder| !folder.contains('/'));
    let methods: Vec<_> = direct
        .map(|folder| (folder.to_string(), format!("{folder}/")))
        .collect();
    if !methods.is_empty() {
        return Ok(vec![found("", methods)?]);
    }
    Err(match folders.first() {
        Some(deeper) => {
            let deeper = deeper
                .rsplit_once('/')
                .map_or(*deeper, |(parent, _)| parent);
            nothing(&format!("but there is one in {deeper} below it; give that"))
        }
        None => nothing("no run.json, no manifest.jsonl and no eval/per_sample.jsonl is in it"),
    })
}

/// The method's folder that a file tells of.
fn method_folder(name: &str) -> Option<&str> {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    match file {
        "manifest.jsonl" => Some(folder),
        // What `prepose check --out` writes.
        "per_sample.jsonl" if folder.is_empty() => Some(""),
        "per_sample.jsonl" => {
            let (method, eval) = folder.rsplit_once('/').unwrap_or(("", folder));
            eval.starts_with("eval").then_some(method)
        }
        _ => None,
    }
}

/// What the folder itself is called.
fn own_name(location: &str) -> String {
    let path = match location.contains("://") {
        true => location.to_owned(),
        false => Path::new(location)
            .canonicalize()
            .map_or(location.into(), |path| path.to_string_lossy().into_owned()),
    };
    let name = path.trim_end_matches('/').rsplit(['/', '\\']).next();
    name.filter(|name| !name.is_empty())
        .unwrap_or("method")
        .into()
}

/// Takes the shard out of a run's settings: all shards of a run have the same others.
fn take_shard(config: &mut Value) -> Option<(usize, usize)> {
    let shard = config.as_object_mut()?.remove("shard")?;
    let (index, count) = match shard.as_str().and_then(|text| text.split_once('/')) {
        Some((index, count)) => (index.parse().ok()?, count.parse().ok()?),
        None => {
            let number = |key: &str| usize::try_from(shard.get(key)?.as_u64()?).ok();
            (number("index")?, number("count")?)
        }
    };
    (index < count).then_some((index, count))
}

impl Found {
    fn with_methods_of_config(mut self) -> Result<Self, SourceError> {
        let name = |method: &Value| Some(method.get("name")?.as_str()?.to_owned());
        let names: Option<Vec<String>> = (self.config.as_ref()).and_then(|config| {
            config
                .get("methods")?
                .as_array()?
                .iter()
                .map(name)
                .collect()
        });
        let names = names.ok_or_else(|| {
            let file = format!("{}run.json", self.root);
            broken(
                self.store.as_ref(),
                &file,
                "it has no list of methods".into(),
            )
        })?;
        self.methods = names
            .into_iter()
            .map(|name| (name.clone(), format!("{}{name}/", self.root)))
            .collect();
        Ok(self)
    }

    /// Where it is.
    pub fn location(&self) -> String {
        let root = self.root.trim_end_matches('/');
        match root {
            "" => self.store.location(),
            _ => format!("{}/{root}", self.store.location()),
        }
    }

    /// The files below a folder, with their names within it.
    pub fn below(&self, folder: &str) -> impl Iterator<Item = &str> {
        self.files
            .iter()
            .filter_map(move |name| name.strip_prefix(folder))
    }

    /// The run's prompts; none if it has no list of them.
    pub fn prompts(&self) -> Result<Vec<SuitePrompt>, SourceError> {
        let name = format!("{}prompts.jsonl", self.root);
        if self.config.is_none() {
            return Ok(Vec::new());
        }
        let Some(text) = text(self.store.as_ref(), &name)? else {
            return Ok(Vec::new());
        };
        lines::read(&text).map_err(|why| broken(self.store.as_ref(), &name, why))
    }

    /// What was written each time the run's command ran.
    pub fn provenance(&self) -> Result<Vec<(String, Value)>, SourceError> {
        let folder = format!("{}provenance/", self.root);
        let mut names: Vec<&str> = self
            .below(&folder)
            .filter(|name| name.ends_with(".json") && !name.contains('/'))
            .collect();
        names.sort_unstable();
        let mut all = Vec::new();
        for name in names {
            if let Some(value) = json(self.store.as_ref(), &format!("{folder}{name}"))? {
                all.push((name.to_owned(), value));
            }
        }
        Ok(all)
    }

    /// What a judge says of the run's pictures.
    pub fn judged(&self) -> Result<Option<Judged>, SourceError> {
        judged::read(self.store.as_ref(), &self.root)
    }

    /// Whether it is a shard that was given itself, and not found in a folder of shards.
    pub fn is_given_shard(&self) -> bool {
        self.shard.is_some() && self.root.is_empty()
    }

    /// How many pictures the whole run is to have of each method, whichever shard of it this is.
    pub fn planned_in_all(&self) -> Option<usize> {
        let config = self.config.as_ref()?;
        let seeds = config.get("seeds")?.as_array()?;
        let prompts = usize::try_from(config.get("prompts")?.as_u64()?).ok()?;
        prompts.checked_mul(seeds.len())
    }

    /// How many pictures this run, or shard of one, is to have of a method; `prompts` are the run's.
    pub fn planned(&self, method: &str, prompts: &[SuitePrompt]) -> Option<usize> {
        let Some((index, count)) = self.shard else {
            return self.planned_in_all();
        };
        let seeds = self.config.as_ref()?.get("seeds")?.as_array()?;
        let seeds: Vec<u64> = seeds.iter().map(Value::as_u64).collect::<Option<_>>()?;
        let of_prompt = |prompt: &SuitePrompt| {
            let turn = shards::turn(method, &prompt.prompt_id);
            let here = |seed: &&u64| shards::makes(index, count, turn, **seed);
            seeds.iter().filter(here).count()
        };
        Some(prompts.iter().map(of_prompt).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_tell_of_folders() {
        for (name, folder) in [
            ("manifest.jsonl", Some("")),
            ("a/manifest.jsonl", Some("a")),
            ("a/eval/per_sample.jsonl", Some("a")),
            ("eval_old/per_sample.jsonl", Some("")),
            ("per_sample.jsonl", Some("")),
            ("a/per_sample.jsonl", None),
            ("a/images/x.png", None),
        ] {
            assert_eq!(method_folder(name), folder, "{name}");
        }
    }

    #[test]
    fn shards_are_read_in_both_spellings() {
        let mut text = serde_json::json!({"shard": "1/4", "x": 1});
        assert_eq!(take_shard(&mut text), Some((1, 4)));
        assert_eq!(text, serde_json::json!({"x": 1}));
        assert_eq!(
            take_shard(&mut serde_json::json!({"shard": {"index": 0, "count": 2}})),
            Some((0, 2))
        );
        for none in [serde_json::json!(null), "0/0".into(), "4/4".into()] {
            assert_eq!(take_shard(&mut serde_json::json!({"shard": none})), None);
        }
    }
}
