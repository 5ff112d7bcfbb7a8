//! `prepose audit sample`

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prepose::audit::draw::{Candidate, draw};
use prepose::audit::table::{self, SampleRow, method_of_run, relative};
use prepose::check::manifest::{Entry, Manifest};
use prepose::check::spatialbench::Record;
use prepose::check::spatialbench::record::relation_name;
use prepose::output::files::{parent, prepare_folder, write_atomically};
use prepose_untrusted::{escaped, read_text_or_stdin};
use serde::Deserialize;
use serde_json::json;

use super::super::OK;
use super::input;
use crate::cli::input::{absolute, count};

/// Draw pictures for people to label, from every method, relation and verdict.
///
/// Methods get equal shares, and within a method so do relations and verdicts; within these, the confidence bins take turns.
/// The same records in the same order and the same seed give the same sample, including SpatialBench-UC's released one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose audit sample --records runs/tour --out audit/sample.csv
  prepose audit sample --records a/per_sample.jsonl b/per_sample.jsonl -n 60 --out sample.csv")]
pub struct Args {
    /// The checker's records: one file per run, or folders of runs or methods that contain them.
    ///
    /// The run's folder is where its manifest.jsonl is: beside the file, one folder up, or where the metrics.json beside the
    /// file says.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE|RUN")]
    records: Vec<PathBuf>,
    /// The CSV table to write.
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// How many pictures to draw.
    #[arg(short, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    n: u32,
    /// The seed for the draw.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Prompts by prompt_id, as JSON lines, for runs whose manifest does not have them.
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

/// A run that records are of.
struct Run {
    /// As the records' path was given.
    folder: PathBuf,
    id: String,
    method: String,
    /// Where the records are.
    records: PathBuf,
    /// By sample.
    manifest: HashMap<String, Entry>,
}

/// What a prompt set says of a prompt.
#[derive(Deserialize)]
struct PromptLine {
    prompt_id: String,
    prompt: String,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let prompts: HashMap<String, String> = match &args.prompts {
        None => HashMap::new(),
        Some(path) => input::json_lines::<PromptLine>(path)?
            .into_iter()
            .map(|line| (line.prompt_id, line.prompt))
            .collect(),
    };
    let mut runs = Vec::new();
    let mut all: Vec<(usize, Record)> = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    let files = input::record_files(&args.records)?;
    for (i, path) in files.iter().enumerate() {
        runs.push(find_run(path)?);
        for record in input::records(path)? {
            if let Some(first) = seen.insert(record.sample_id.clone(), i) {
                bail!(
                    "{} is in {} and in {}; give each picture's record once",
                    record.sample_id,
                    files[first].display(),
                    path.display()
                );
            }
            all.push((i, record));
        }
    }

    let candidates: Vec<Candidate> = all
        .iter()
        .map(|(run, record)| Candidate {
            method: runs[*run].method.clone(),
            relation: relation_name(record.relation),
            verdict: record.verdict_raw,
            conf: record.conf,
        })
        .collect();
    let drawn = draw(&candidates, args.n as usize, args.seed);
    prepare_folder(parent(&args.out))?;
    let table_folder = absolute(parent(&args.out))?;
    let rows = drawn
        .iter()
        .map(|&i| {
            let (run, record) = &all[i];
            row(&runs[*run], record, &prompts, &table_folder)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    write_atomically(&args.out, &table::write(&rows)?)?;
    report(args, &candidates, &drawn)?;
    Ok(OK)
}

fn row(
    run: &Run,
    record: &Record,
    prompts: &HashMap<String, String>,
    table: &Path,
) -> anyhow::Result<SampleRow> {
    let line = run.line(&record.sample_id);
    let image = match line.map(|line| Path::new(&line.image_path)) {
        None => {
            let name = format!("images/{}.png", record.sample_id);
            run.folder.join(name)
        }
        // A manifest's paths are relative to it, or else to where it was written from.
        Some(path) => match run.folder.join(path) {
            beside if !beside.exists() && path.exists() => path.to_owned(),
            beside => beside,
        },
    };
    let overlay = match &record.overlay_path {
        None => String::new(),
        Some(path) => relative(&absolute(&parent(&run.records).join(path))?, table),
    };
    let prompt = line
        .and_then(|line| line.prompt.as_ref())
        .or_else(|| prompts.get(&record.prompt_id));
    Ok(SampleRow {
        sample_id: record.sample_id.clone(),
        image_path: relative(&absolute(&image)?, table),
        overlay_path: overlay,
        prompt: prompt.cloned().unwrap_or_default(),
        relation: relation_name(record.relation),
        object_a: record.object_a.clone(),
        object_b: record.object_b.clone(),
        checker_verdict_raw: record.verdict_raw,
        conf: record.conf,
        run_id: run.id.clone(),
        run_path: run.folder.to_string_lossy().replace('\\', "/"),
        method: run.method.clone(),
    })
}

impl Run {
    /// What the manifest says of a picture. A picture that was asked several questions has as many records, whose names end
    /// in `_relation1` and so on.
    fn line(&self, sample_id: &str) -> Option<&Entry> {
        self.manifest.get(sample_id).or_else(|| {
            let (picture, number) = sample_id.rsplit_once("_relation")?;
            number.parse::<u32>().ok()?;
            self.manifest.get(picture)
        })
    }
}

/// The run that a file of records belongs to: the folder with the manifest, which is beside the records or one above, or
/// which the metrics beside them name. Without a manifest, the folder above one that is called `eval` or the like, as the
/// released runs are laid out, else the records' own.
fn find_run(records: &Path) -> anyhow::Result<Run> {
    let beside = parent(records).to_path_buf();
    let above = beside
        .parent()
        .map(|folder| match folder.as_os_str().len() {
            0 => PathBuf::from("."),
            _ => folder.to_path_buf(),
        });
    let manifest = std::iter::once(&beside)
        .chain(&above)
        .map(|folder| folder.join("manifest.jsonl"))
        .chain(told_manifest(&beside))
        .find(|path| path.is_file());
    let named_eval = beside
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("eval"));
    let folder = match (&manifest, above) {
        (Some(path), _) => parent(path).to_path_buf(),
        (None, Some(above)) if named_eval => above,
        (None, _) => beside,
    };
    let manifest = match &manifest {
        None => HashMap::new(),
        Some(path) => lines(path)?,
    };
    let id = absolute(&folder)?
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .with_context(|| format!("{} has no name to call a run by", folder.display()))?;
    Ok(Run {
        method: method_of_run(&id),
        records: records.to_path_buf(),
        manifest,
        folder,
        id,
    })
}

/// The lines of a manifest by their pictures.
fn lines(path: &Path) -> anyhow::Result<HashMap<String, Entry>> {
    let text =
        read_text_or_stdin(path).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest = Manifest::read(&text);
    if let Some((line, error)) = manifest.broken.first() {
        bail!("{}: line {line}: {error}", path.display());
    }
    let entries = manifest.entries.into_iter();
    Ok(entries
        .map(|entry| (entry.sample_id.clone(), entry))
        .collect())
}

/// The manifest that `prepose check` wrote down in its metrics.
fn told_manifest(folder: &Path) -> Option<PathBuf> {
    let text = read_text_or_stdin(&folder.join("metrics.json")).ok()?;
    let metrics: serde_json::Value = serde_json::from_str(&text).ok()?;
    metrics["manifest"].as_str().map(PathBuf::from)
}

fn report(args: &Args, candidates: &[Candidate], drawn: &[usize]) -> anyhow::Result<()> {
    let mut strata: BTreeMap<(&str, &str, &str), (usize, usize)> = BTreeMap::new();
    let key = |i: usize| {
        let Candidate {
            method,
            relation,
            verdict,
            ..
        } = &candidates[i];
        (method.as_str(), relation.as_str(), verdict.as_str())
    };
    for i in 0..candidates.len() {
        strata.entry(key(i)).or_default().1 += 1;
    }
    for &i in drawn {
        strata.entry(key(i)).or_default().0 += 1;
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        let strata: Vec<_> = strata
            .iter()
            .map(|((method, relation, verdict), (drawn, of))| {
                json!({ "method": method, "relation": relation, "verdict": verdict, "drawn": drawn, "of": of })
            })
            .collect();
        let report = json!({ "sample": args.out.to_string_lossy(), "drawn": drawn.len(), "of": candidates.len(), "seed": args.seed, "strata": strata });
        writeln!(out, "{report}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{}: {} of {}",
        escaped(&args.out.display().to_string()),
        drawn.len(),
        count(candidates.len(), "picture")
    )?;
    let widest = |of: fn(&(&str, &str, &str)) -> usize| strata.keys().map(of).max().unwrap_or(0);
    let (names, relations) = (
        widest(|(method, ..)| method.chars().count()),
        widest(|(_, relation, _)| relation.chars().count()),
    );
    for ((method, relation, verdict), (drawn, of)) in &strata {
        let line = format!(
            "  {method:<names$}  {relation:<relations$}  {verdict:<11}  {drawn:>4} of {of}"
        );
        writeln!(out, "{}", escaped(&line))?;
    }
    Ok(())
}
