//! `prepose report`

mod output;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use prepose::audit::labels::{self, Label};
use prepose::output::files::{prepare_folder, write_atomically};
use prepose::output::png::save_plain;
use prepose::plot::{png, svg};
use prepose::report::bootstrap::Bootstrap;
use prepose::report::figures::{self, Figure};
use prepose::report::pictures::{self, Addresses, Keep};
use prepose::report::published::{self, Beside};
use prepose::report::tables::{self, Titled};
use prepose::report::{Report, judged, page, paired, people, read, source};
use prepose_untrusted::{escaped, printable, read_text_or_stdin};

use super::OK;
use super::input::count;
use output::{aligned, summary};

/// How many pixels of a PNG a pixel of a plot has.
const ZOOM: f64 = 2.0;

/// Make tables, plots and a page that opens offline, from runs and methods' folders.
///
/// Writes report.html, tables.md, tables/*.csv, *.md and *.tex, and plots/*.svg and *.png. Unfinished runs are reported as far as
/// they go.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose report runs/tour                       # to runs/tour/report; open report.html in any browser
  prepose report runs/a runs/b -o compared       # several runs side by side
  prepose report bundle/sd15_promptonly bundle/sd15_boxdiff -o released    # SpatialBench-UC's own files
  prepose report runs/tour --embed -o mail       # one file with the pictures in it")]
pub struct Args {
    /// Folders of runs, of single methods (manifest.jsonl, eval/per_sample.jsonl), or of several methods.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// The folder to write to [default: `report` in the run, or here if there are several].
    #[arg(short, long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// The title at the top of the page [default: the runs' names].
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// What people say about the pictures, as exported from the page of `audit label`; may be repeated [default: the
    /// labels_filled.json in the folder audit or audits in a run or beside it].
    #[arg(long, value_name = "FILE")]
    labels: Vec<PathBuf>,
    /// The folder of the checker's records in each method's folder [default: eval, or else the first].
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    eval: Option<String>,
    /// Put the pictures into the page: all of them as they are, or thumbnails [default: links to where they are].
    #[arg(long, value_name = "WHAT", num_args = 0..=1, default_missing_value = "pictures", require_equals = true,
          help_heading = "Pictures")]
    embed: Option<Embed>,
    /// Copy the pictures into the page's folder, so that the folder can be sent away.
    #[arg(long, conflicts_with = "embed", help_heading = "Pictures")]
    copy: bool,
    /// A folder outside the run's that pictures may also be taken from; may be repeated [default: none].
    #[arg(
        long,
        value_name = "FOLDER",
        help_heading = "Pictures",
        hide_short_help = true
    )]
    pictures: Vec<PathBuf>,
    /// How often prompts are resampled for a confidence interval.
    #[arg(long, value_name = "N", default_value_t = Bootstrap::default().draws, help_heading = "Statistics", hide_short_help = true)]
    bootstrap: usize,
    /// The seed for resampling.
    #[arg(long, value_name = "SEED", default_value_t = Bootstrap::default().seed, help_heading = "Statistics", hide_short_help = true)]
    seed: u64,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

impl Args {
    /// One run's report, in its own folder.
    pub fn of(run: String) -> Self {
        Self {
            runs: vec![run],
            out: None,
            title: None,
            labels: Vec::new(),
            eval: None,
            embed: None,
            copy: false,
            pictures: Vec::new(),
            bootstrap: Bootstrap::default().draws,
            seed: Bootstrap::default().seed,
            json: false,
        }
    }
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Embed {
    /// As they are, attention maps too.
    Pictures,
    /// 192 pixels, without attention maps.
    Thumbnails,
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    ensure!(
        (1..=1_000_000).contains(&args.bootstrap),
        "--bootstrap is {}; it must be from 1 to 1000000",
        args.bootstrap
    );
    let given = read_labels(&args.labels)?;
    for told in source::undamaged(&args.runs)? {
        tracing::warn!("{told}");
    }
    let report = read(&args.runs, given, args.eval.as_deref())?;
    if let Some(name) = &args.eval {
        ensure!(
            !report.checked().is_empty(),
            "no method has a folder {name} with records (per_sample.jsonl) in it"
        );
    }
    let out = args.out.clone().unwrap_or_else(|| default_out(&args.runs));
    prepare_folder(&out)?;

    let bootstrap = Bootstrap {
        draws: args.bootstrap,
        seed: args.seed,
    };
    let rates = tables::rates(&report, &bootstrap);
    let pairs = paired::pairs(&report, &bootstrap);
    let mut tables = tables::all(&report, &rates, &pairs);
    tables.extend(judged::tables(&report));
    let mut notes = report.caveats();
    notes.extend(judged::notes(&report));
    let curves = people::curves(&report).unwrap_or_else(|why| {
        notes.push(format!("No risk–coverage curve: {why}."));
        Vec::new()
    });
    let figures = figures::all(&report, &rates, &pairs, &curves);
    let keep = match (args.embed, args.copy) {
        (Some(Embed::Pictures), _) => Keep::Embed,
        (Some(Embed::Thumbnails), _) => Keep::Thumbnails,
        (None, true) => Keep::Copy,
        (None, false) => Keep::Link,
    };
    let addresses = pictures::addresses(&report, keep, &out, &args.pictures)?;
    notes.extend(not_taken(&addresses));
    let beside = published::beside(&report, &bootstrap);
    let title = args.title.clone().unwrap_or_else(|| title(&report));
    let cards = tables::picture_rates(&report, &bootstrap);
    let parts = page::Parts {
        title: &title,
        tables: &tables,
        figures: &figures,
        notes: &notes,
        beside: beside.as_ref(),
    };
    let html = page::page(&report, &parts, &addresses, &cards);

    let mut written = write(&out, &tables, &figures, &html)?;
    if let Some(beside) = &beside {
        written.extend(write_beside(&out, beside)?);
    }
    if args.json {
        let beside = beside.iter().flat_map(|beside| &beside.tables);
        let all = tables.iter().chain(beside);
        let summary = summary(&report, &out, all, &written);
        writeln!(std::io::stdout(), "{summary}")?;
        return Ok(OK);
    }
    if !quiet {
        for note in notes.into_iter().chain(report.unfinished()) {
            eprintln!("note: {}", escaped(&note));
        }
    }
    print_result(&report, &out, &tables, figures.len())?;
    Ok(OK)
}

/// For a person: the main table, and where all of it is.
fn print_result(
    report: &Report,
    out: &Path,
    tables: &[Titled],
    figures: usize,
) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    if let Some(main) = tables
        .iter()
        .find(|t| ["main_results", "visor"].contains(&t.table.name))
    {
        write!(stdout, "{}", escaped(&aligned(&main.table)))?;
    }
    writeln!(
        stdout,
        "{}: {}, {}, {}",
        escaped(&out.join("report.html").display().to_string()),
        count(report.pictures(), "picture"),
        count(tables.len(), "table"),
        count(figures, "plot")
    )?;
    Ok(())
}

/// Which files stay where they are.
fn not_taken(addresses: &Addresses) -> Option<String> {
    let (first, why) = addresses.left.first()?;
    let count = match addresses.left.len() {
        1 => "1 file was".to_owned(),
        count => format!("{count} files were"),
    };
    Some(format!(
        "{count} not taken along; the first, {}: {why}. Name the folders that pictures may be taken from with --pictures.",
        printable(first)
    ))
}

/// The labels of people in all these files.
fn read_labels(files: &[PathBuf]) -> anyhow::Result<Vec<Label>> {
    let mut given = Vec::new();
    for path in files {
        let text =
            read_text_or_stdin(path).with_context(|| format!("cannot read {}", path.display()))?;
        let read = labels::read(&text).with_context(|| path.display().to_string())?;
        people::add(read, &mut given);
    }
    Ok(given)
}

/// Within the run if it is one in a folder of this machine.
fn default_out(runs: &[String]) -> PathBuf {
    match runs {
        [run] if !run.contains("://") => Path::new(run).join("report"),
        _ => PathBuf::from("report"),
    }
}

fn title(report: &Report) -> String {
    let names: Vec<String> = report.runs.iter().map(|run| run.name()).collect();
    names.join(", ")
}

fn write(
    out: &Path,
    tables: &[Titled],
    figures: &[Figure],
    html: &str,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    let mut put = |name: PathBuf, bytes: &[u8]| {
        write_atomically(&out.join(&name), bytes)?;
        written.push(name);
        anyhow::Ok(())
    };
    prepare_folder(&out.join("tables"))?;
    put_tables(tables, &mut put)?;
    put("tables.md".into(), tables::markdown(tables).as_bytes())?;
    prepare_folder(&out.join("plots"))?;
    for figure in figures {
        let svg = svg::file(&figure.drawing);
        put(format!("plots/{}.svg", figure.name).into(), svg.as_bytes())?;
    }
    put("report.html".into(), html.as_bytes())?;
    for figure in figures {
        let name = PathBuf::from(format!("plots/{}.png", figure.name));
        save_plain(&out.join(&name), &png::picture(&figure.drawing, ZOOM)?)?;
        written.push(name);
    }
    Ok(written)
}

/// Each table as CSV, Markdown and LaTeX.
fn put_tables(
    tables: &[Titled],
    put: &mut impl FnMut(PathBuf, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for titled in tables {
        let name = |ending: &str| format!("tables/{}.{ending}", titled.table.name).into();
        put(name("csv"), titled.table.to_csv().as_bytes())?;
        let markdown = tables::markdown(std::slice::from_ref(titled));
        put(name("md"), markdown.as_bytes())?;
        put(name("tex"), tables::latex(titled).as_bytes())?;
    }
    Ok(())
}

/// The page beside the paper's tables, its Markdown, and its tables each by itself.
fn write_beside(out: &Path, beside: &Beside) -> anyhow::Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    let mut put = |name: PathBuf, bytes: &[u8]| {
        write_atomically(&out.join(&name), bytes)?;
        written.push(name);
        anyhow::Ok(())
    };
    put_tables(&beside.tables, &mut put)?;
    let file = |ending: &str| format!("{}.{ending}", published::NAME).into();
    put(file("md"), beside.markdown().as_bytes())?;
    put(file("html"), page::beside(beside).as_bytes())?;
    Ok(written)
}
