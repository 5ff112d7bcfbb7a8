//! Pictures from elsewhere: which folder, server or program, and what is asked of it.

use super::args::Settings;
use super::secrets::names_a_secret;
use super::source_args::SourceArgs;
use super::workflow::open_workflow;
use anyhow::{Context, bail, ensure};
use prepose::remote::images::{ComfyUi, Extra, ImageServer, OpenAiImages, WebUi};
use prepose::remote::{self, Client, Key, Timeouts};
use prepose::sources::folder::{Layout, Wanted};
use prepose::sources::{Editing, Endpoint, Folder, Patience, Process, Source, Wishes};
use prepose::store::Store;
use prepose::store::ledger::sha256;
use prepose::suite::SuitePrompt;
use prepose::suite::elsewhere;
use prepose::suite::folder::RunFolder;
use prepose::suite::growth::union;
use prepose::suite::plan::{Interface, Job, Plan, SourceId};
use prepose_untrusted::printable;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A source that is open.
pub struct Opened {
    pub id: SourceId,
    source: Found,
    /// For messages about a folder.
    pictures: PathBuf,
    partial: bool,
}

enum Found {
    Folder(Folder),
    Other(Box<dyn Source>),
}

/// Opens what the arguments name; a program is started, and a server asked whether it is one.
pub fn open(
    settings: &Settings,
    prompts: &[SuitePrompt],
    seeds: &[u64],
    stop: Arc<AtomicBool>,
) -> anyhow::Result<Opened> {
    refuse_misplaced(settings)?;
    let args = &settings.source;
    if let Some(folder) = &args.pictures {
        return pictures(args, folder, prompts, seeds);
    }
    let wishes = wishes(settings)?;
    if let Some(command) = &args.maker {
        let patience = args
            .patience
            .map_or_else(Patience::default, |seconds| Patience {
                start: Duration::from_secs(seconds).max(Patience::default().start),
                picture: Duration::from_secs(seconds),
            });
        let process = Process::start(command, wishes.clone(), patience, stop)?;
        let hello = process.hello();
        let called = command.split_whitespace().next().map(|word| {
            let name = Path::new(word).file_stem().unwrap_or_default();
            name.to_string_lossy().into_owned()
        });
        let name = args
            .source_name
            .clone()
            .or_else(|| hello.name.clone())
            .or(called);
        let id = SourceId::Maker {
            name: name.unwrap_or_default(),
            version: hello.version.clone(),
            wishes,
        };
        return Ok(Opened::new(id, Box::new(process)));
    }
    let Some(url) = &args.endpoint else {
        bail!("no source of pictures was named");
    };
    endpoint(args, url, wishes, stop)
}

impl Opened {
    fn new(id: SourceId, source: Box<dyn Source>) -> Self {
        Self {
            id,
            source: Found::Other(source),
            pictures: PathBuf::new(),
            partial: false,
        }
    }

    pub fn source(&mut self) -> &mut dyn Source {
        match &mut self.source {
            Found::Folder(folder) => folder,
            Found::Other(source) => &mut **source,
        }
    }

    /// Whether it changes pictures.
    pub fn editing(&self) -> Editing {
        match &self.source {
            Found::Folder(folder) => folder.editing(),
            Found::Other(source) => source.editing(),
        }
    }

    /// Refuses to begin with pictures that are not there, unless that is wanted. What the run in `store` has already need
    /// not be there any more.
    pub fn check_missing(&self, store: &Arc<dyn Store>, plan: &Plan) -> anyhow::Result<()> {
        let Found::Folder(folder) = &self.source else {
            return Ok(());
        };
        let there = RunFolder::open(store.clone()).ok();
        let mut numbered = plan.clone();
        if let Some(there) = &there {
            let Ok(both) = union(there.plan(), plan) else {
                // Whoever goes on with that run says what is contradictory.
                return Ok(());
            };
            // Pictures are counted over all seeds of the run, not over those that are asked for now.
            numbered.config.seeds = both.config.seeds;
        }
        let (mut missing, mut wanted) = (Vec::new(), 0);
        for method in 0..plan.config.methods.len() {
            let has = done(there.as_ref(), &plan.config.methods[method].name)?;
            let jobs: Vec<Job> = (plan.jobs(method))
                .filter(|job| !has.contains(&plan.sample_id(*job)))
                .collect();
            for job in elsewhere::wanted(&numbered, &self.id, &jobs)
                .into_iter()
                .flatten()
            {
                wanted += 1;
                if folder.file_of(&job).is_none() {
                    let which = match folder.is_by_seed() {
                        true => format!("seed {}", job.seed),
                        false => format!("picture {}", job.number),
                    };
                    missing.push(format!("{} ({which})", job.prompt_id));
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        const SHOWN: usize = 10;
        let mut shown = missing
            .iter()
            .take(SHOWN)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        if missing.len() > SHOWN {
            shown += &format!(" and {} more", missing.len() - SHOWN);
        }
        let all = missing.len() == wanted;
        let text = format!(
            "{} lacks {} of {wanted} pictures: {shown}",
            self.pictures.display(),
            missing.len()
        );
        ensure!(
            self.partial && !all,
            "{text}; {}",
            match all {
                true => "are its files named as --layout or --name-template says?",
                false => "--partial begins with those that are there",
            }
        );
        tracing::warn!("{text}");
        Ok(())
    }
}

/// The ids of a method's pictures that a run has.
fn done(run: Option<&RunFolder>, method: &str) -> anyhow::Result<HashSet<String>> {
    let mut ids = HashSet::new();
    let Some(run) = run else { return Ok(ids) };
    let plan = run.plan();
    let mut methods = plan.config.methods.iter();
    if let Some(index) = methods.position(|one| one.name == method) {
        let pending: HashSet<usize> = run.pending(index)?.iter().map(|job| job.index).collect();
        let done = plan.jobs(index).filter(|job| !pending.contains(&job.index));
        ids.extend(done.map(|job| plan.sample_id(job)));
    }
    Ok(ids)
}

/// A folder of pictures.
fn pictures(
    args: &SourceArgs,
    root: &Path,
    prompts: &[SuitePrompt],
    seeds: &[u64],
) -> anyhow::Result<Opened> {
    let manifest = root.join("manifest.jsonl").is_file();
    let layout = match (&args.layout, &args.name_template) {
        (Some(layout), _) | (None, Some(layout)) => layout.clone(),
        (None, None) if manifest => Layout::Manifest,
        (None, None) => bail!(
            "--pictures needs --layout or --name-template, which say how the files in {} are named",
            root.display()
        ),
    };
    ensure!(
        seeds.len() <= 1 || !layout.is_single(),
        "the layout {layout} has one picture of each prompt, but {} are wanted; --seeds 0 takes one",
        seeds.len()
    );
    let folder = open_folder(root, &layout, prompts)?;
    let named = root.canonicalize().ok();
    let named = named.as_deref().unwrap_or(root).file_name();
    let name = args.source_name.clone();
    let name = name.unwrap_or_else(|| named.unwrap_or_default().to_string_lossy().into_owned());
    Ok(Opened {
        id: SourceId::Pictures { name, layout },
        source: Found::Folder(folder),
        pictures: root.to_owned(),
        partial: args.partial,
    })
}

/// Looks at a folder's names.
fn open_folder(root: &Path, layout: &Layout, prompts: &[SuitePrompt]) -> anyhow::Result<Folder> {
    let wanted = |prompt: &SuitePrompt| Wanted {
        prompt_id: prompt.prompt_id.clone(),
        prompt: prompt.prompt.clone(),
    };
    let wanted: Vec<Wanted> = prompts.iter().map(wanted).collect();
    Ok(Folder::open(root, layout, &wanted)?)
}

/// What is asked for besides the prompt.
pub fn wishes(settings: &Settings) -> anyhow::Result<Wishes> {
    let asked = &settings.sampling;
    let size = asked.size.map(|(width, height)| {
        Ok::<_, std::num::TryFromIntError>([width.try_into()?, height.try_into()?])
    });
    Ok(Wishes {
        size: size.transpose().context("--size is too large")?,
        steps: asked.steps,
        guidance_scale: asked.guidance_scale,
        negative_prompt: asked.negative_prompt.clone().unwrap_or_default(),
    })
}

fn endpoint(
    args: &SourceArgs,
    url: &str,
    wishes: Wishes,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<Opened> {
    ensure!(args.parallel > 0, "--parallel is 0, but must be at least 1");
    let client = client(args, url, stop)?;
    let address = client.address().to_string();
    if let Some((name, _)) = (args.endpoint_set.iter()).find(|(name, _)| names_a_secret(name)) {
        // Not where the argument is read: the value would be repeated.
        bail!(
            "{} looks like a secret, and fields are kept in run.json: put it into an environment variable and name that with \
             --endpoint-key-env",
            printable(name)
        );
    }
    let fields: Map<String, Value> = args.endpoint_set.iter().cloned().collect();
    let interface = args.endpoint_kind.unwrap_or(match args.workflow {
        Some(_) => Interface::ComfyUi,
        None => Interface::OpenAi,
    });
    let (server, workflow) = server(args, interface, client, &fields, &wishes)?;
    let from_graph = args.workflow.as_deref().and_then(Path::file_stem);
    let from_graph = from_graph.map(|stem| stem.to_string_lossy().into_owned());
    let name = args
        .source_name
        .clone()
        .or_else(|| args.endpoint_model.clone())
        .or(from_graph);
    let endpoint = Endpoint::new(server, wishes.clone(), args.parallel);
    endpoint.check()?;
    let id = SourceId::Endpoint {
        name: name.unwrap_or_else(|| "webui".into()),
        interface,
        address,
        wishes,
        fields,
        workflow,
    };
    Ok(Opened::new(id, Box::new(endpoint)))
}

fn client(args: &SourceArgs, url: &str, stop: Arc<AtomicBool>) -> anyhow::Result<Client> {
    let key = args.endpoint_key_env.as_deref().map(Key::from_variable);
    let mut timeouts = Timeouts::default();
    if let Some(seconds) = args.patience {
        timeouts.answer = Duration::from_secs(seconds);
    }
    let settings = remote::Settings {
        timeouts,
        stop,
        key_header: args.endpoint_key_header.clone(),
        ..remote::Settings::default()
    };
    Ok(Client::new(url, key.transpose()?, settings)?)
}

/// What is asked, and the hash of the graph that it is asked with.
fn server(
    args: &SourceArgs,
    interface: Interface,
    client: Client,
    fields: &Map<String, Value>,
    wishes: &Wishes,
) -> anyhow::Result<(Box<dyn ImageServer>, Option<String>)> {
    let extra = Extra(fields.clone());
    let server: Box<dyn ImageServer> = match (interface, &args.workflow, &args.endpoint_model) {
        (Interface::ComfyUi, Some(path), None) if fields.is_empty() => {
            let (text, graph) = open_workflow(path, wishes)?;
            let hash = sha256(text.as_bytes());
            return Ok((Box::new(ComfyUi::new(client, graph)), Some(hash)));
        }
        (Interface::ComfyUi, None, _) => bail!(
            "ComfyUI needs to know what to do: --workflow FILE.json, exported in its API format"
        ),
        (Interface::ComfyUi, ..) => bail!(
            "ComfyUI's model and settings are in its graph; leave out --endpoint-model and --endpoint-set with --workflow"
        ),
        (_, Some(_), _) => bail!("--workflow is for --endpoint-kind comfyui"),
        (Interface::OpenAi, None, Some(model)) => Box::new(OpenAiImages::new(client, model, extra)),
        (Interface::OpenAi, None, None) => {
            bail!("--endpoint-model NAME says which of the server's models makes the pictures")
        }
        (Interface::WebUi, None, Some(_)) if names_checkpoint(fields) => bail!(
            "--endpoint-model and override_settings in --endpoint-set both name a checkpoint; leave one of them out"
        ),
        (Interface::WebUi, None, model) => Box::new(WebUi::new(client, model.clone(), extra)),
    };
    Ok((server, None))
}

/// Whether the web UI's settings among the fields that are sent besides say which checkpoint it is to be.
fn names_checkpoint(fields: &Map<String, Value>) -> bool {
    let settings = fields.get("override_settings");
    settings.is_some_and(|settings| settings.get("sd_model_checkpoint").is_some())
}

/// Options that are about an engine that is not used.
fn refuse_misplaced(settings: &Settings) -> anyhow::Result<()> {
    let Settings {
        model,
        sampling,
        source,
        ..
    } = settings;
    let savings = sampling.savings.given();
    let engine = [
        ("--checkpoint", model.checkpoint.is_some()),
        ("--config", model.config.is_some()),
        ("--vae", model.vae.is_some()),
        ("--lora", !model.lora.is_empty()),
        ("--ip-adapter", !model.ip_adapter.is_empty()),
        ("--ip-picture", !sampling.ip_picture.is_empty()),
        ("--dtype", model.dtype.is_some()),
        ("--scheduler", sampling.scheduler.is_some()),
        ("--timestep-spacing", sampling.timestep_spacing.is_some()),
        ("--eta", sampling.eta.is_some()),
        ("--guidance-steps", sampling.guidance_steps.is_some()),
        ("--clip-skip", sampling.clip_skip.is_some()),
        ("--noise", sampling.noise.is_some()),
        ("--vae-tiling", sampling.vae_tiling.is_some()),
        ("--save-attention-maps", settings.save_attention_maps),
        (savings.unwrap_or_default(), savings.is_some()),
    ];
    let wishes = [
        ("--steps", sampling.steps.is_some()),
        ("--guidance-scale", sampling.guidance_scale.is_some()),
        ("--size", sampling.size.is_some()),
        ("--negative-prompt", sampling.negative_prompt.is_some()),
    ];
    let wishes = wishes.into_iter().filter(|_| source.pictures.is_some());
    if let Some((option, _)) = engine.into_iter().chain(wishes).find(|(_, given)| *given) {
        let why = match source.pictures {
            Some(_) => "the pictures are there already",
            None => "the pictures are made elsewhere, by what is set there",
        };
        bail!("{option} is about making pictures here, but {why}; leave it out");
    }
    Ok(())
}
