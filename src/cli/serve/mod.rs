//! `prepose serve`

mod batch;
mod course;
mod eye;
mod inbox;
mod loras;
mod maker;
mod plan;
mod reading;
mod searching;
mod studio;
mod verdict;

use std::io::Write as _;
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use prepose::device::DeviceSpec;
use prepose::make::BatchSize;
use prepose::output::png;
use prepose::request::{Adapter, Dtype, ModelRequest};
use prepose_serve::gallery::Gallery;
use prepose_serve::guard::Guard;
use prepose_serve::runs::Runs;
use prepose_serve::{App, Limits, Setup, server};
use prepose_weights::TOYBOX;

use super::{OK, checker, interrupt, model};
use inbox::Inbox;
use loras::Loras;
use studio::{Model, Shared, Shop};

/// What a file of tokens may have.
const MOST_TOKENS: u64 = 1 << 16;

/// Make pictures over HTTP: a page for the browser, OpenAI's images interface and AUTOMATIC1111's (docs/serve.md).
///
/// It listens only on this machine and asks for a token, which it prints. Requests from several callers that fit
/// together are made in one batch. Ctrl-C or `kill` finishes what is being made and refuses the rest.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose serve                                        # the toybox; open the address that is printed
  prepose serve --checkpoint sd15/ --checkpoint sdxl/ --loras loras/ --checker frcnn-v2
  prepose serve --host 0.0.0.0 --host-name gpu.example --token-file tokens.txt")]
pub struct Args {
    /// The networks: a folder, a file, or a name; may be repeated. The first is the default one [default: toybox].
    #[arg(short, long, value_name = "PATH|NAME", help_heading = "Networks")]
    checkpoint: Vec<String>,
    /// A folder of LoRA files, which requests name without their extension.
    #[arg(long, value_name = "FOLDER", help_heading = "Networks")]
    loras: Option<PathBuf>,
    /// An IP-Adapter, with which requests show pictures to the checkpoints that it fits; may be repeated
    /// (docs/guidance/ip-adapter.md).
    ///
    /// As for `prepose generate`: a file, or FILE,encoder=FOLDER.
    #[arg(
        long,
        value_name = "FILE[,encoder=PATH]",
        value_parser = model::parse_adapter,
        help_heading = "Networks",
        hide_short_help = true
    )]
    ip_adapter: Vec<Adapter>,
    /// The detector that looks at finished pictures: toybox, a known name, a path, or none [default: toybox for the
    /// toybox, else none].
    #[arg(long, value_name = "NAME|PATH", help_heading = "Networks")]
    checker: Option<String>,
    /// The type of the weights [default: f32 on the CPU, f16 elsewhere].
    #[arg(
        long,
        value_name = "TYPE",
        help_heading = "Networks",
        hide_short_help = true
    )]
    dtype: Option<Dtype>,
    /// auto, cuda[:i], wgpu[:i], vulkan[:i], metal or flex (the CPU).
    #[arg(
        long,
        value_name = "DEVICE",
        default_value = "auto",
        help_heading = "Networks"
    )]
    device: DeviceSpec,
    /// Pictures at a time, for all callers together: a number, or as many as fit.
    #[arg(
        short,
        long,
        value_name = "N|auto",
        default_value = "auto",
        help_heading = "Networks"
    )]
    batch: BatchSize,

    /// The address to listen on; any but this machine's own needs a token.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1",
        help_heading = "Connections"
    )]
    host: IpAddr,
    /// The port; 0 takes a free one.
    #[arg(long, default_value_t = 7861, help_heading = "Connections")]
    port: u16,
    /// A host name that the server answers to, besides localhost and its address; may be repeated.
    #[arg(long, value_name = "NAME", help_heading = "Connections")]
    host_name: Vec<String>,
    /// A site whose pages may use the server, such as https://draw.example; may be repeated.
    #[arg(long, value_name = "ORIGIN", help_heading = "Connections")]
    allow_origin: Vec<String>,
    /// A file with tokens, one per line; each is a separate caller [default: PREPOSE_TOKEN, else a new one, which is printed].
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "no_token",
        help_heading = "Connections"
    )]
    token_file: Option<PathBuf>,
    /// Let everybody on this machine in without a token.
    #[arg(long, help_heading = "Connections")]
    no_token: bool,
    /// In the OpenAI interface, let any model's name stand for the default checkpoint.
    #[arg(long, help_heading = "Connections")]
    any_model: bool,

    /// Where to keep finished pictures; none keeps nothing, and the page then has nothing to show.
    #[arg(
        short,
        long,
        value_name = "FOLDER|none",
        default_value = "served",
        help_heading = "Files"
    )]
    out: PathBuf,
    /// A folder of run folders, whose reports the page shows.
    #[arg(long, value_name = "FOLDER", help_heading = "Files")]
    runs: Option<PathBuf>,
    /// Read the page from a folder instead of the program.
    #[arg(long, value_name = "FOLDER", hide = true)]
    page: Option<PathBuf>,

    /// The most pictures that one request may ask for, candidates included.
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Limits")]
    max_pictures: usize,
    /// The most steps that a picture may have.
    #[arg(long, value_name = "N", default_value_t = 150, help_heading = "Limits")]
    max_steps: usize,
    /// The most pixels that a picture may have.
    #[arg(long, value_name = "N", default_value_t = 2048 * 2048, help_heading = "Limits")]
    max_pixels: usize,
    /// The most pictures that may wait.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1024,
        help_heading = "Limits"
    )]
    max_waiting: usize,
    /// The most pictures of one token that may wait.
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = "Limits")]
    max_waiting_per_token: usize,
    /// Seconds within which a request must have arrived, and after which a client that reads nothing is left.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30,
        help_heading = "Limits",
        hide_short_help = true
    )]
    patience: u64,
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    for (name, value) in [
        ("--max-pictures", args.max_pictures),
        ("--max-steps", args.max_steps),
        ("--max-pixels", args.max_pixels),
        ("--max-waiting", args.max_waiting),
        ("--max-waiting-per-token", args.max_waiting_per_token),
        ("--patience", args.patience as usize),
    ] {
        ensure!(value > 0, "{name} is 0, but must be at least 1");
    }
    let (tokens, shown) = args.tokens()?;
    // One that was made up here is another one the next time, and the pictures are to be there still.
    let lasting: &[String] = if shown.is_some() { &[] } else { &tokens };
    let listener = TcpListener::bind((args.host, args.port));
    let listener =
        listener.with_context(|| format!("cannot listen on {} port {}", args.host, args.port))?;
    let address = listener.local_addr().context("cannot listen")?;
    let shop = args.shop()?;
    let gallery = match args.out.as_os_str() == "none" {
        true => None,
        false => Some(Gallery::open(&args.out, lasting).context("cannot keep pictures (--out)")?),
    };
    let mut hosts = server::names(address);
    hosts.extend(args.host_name.iter().cloned());
    let app = App::new(Setup {
        studio: Box::new(shop),
        guard: Guard::new(&tokens, hosts, args.allow_origin.clone()),
        limits: Limits {
            pictures: args.max_pictures,
            steps: args.max_steps,
            pixels: args.max_pixels,
            waiting: args.max_waiting,
            waiting_per_caller: args.max_waiting_per_token,
            patience: args.patience,
            ..Limits::default()
        },
        gallery,
        runs: args.runs.clone().map(Runs),
        page: args.page.clone(),
        any_model: args.any_model,
    });
    let asked = interrupt::listen_twice()?;
    let at_once = asked.at_once.clone();
    std::thread::spawn(move || {
        while !at_once.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        std::process::exit(interrupt::exit_code().unwrap_or(OK).into());
    });
    if !quiet {
        let token = shown.map_or(String::new(), |token| format!("#token={token}"));
        writeln!(std::io::stdout().lock(), "http://{address}/{token}")?;
    }
    let soon = asked.soon.clone();
    server::serve(&app, listener, move || soon.load(Ordering::Relaxed))
        .context("the server failed")?;
    Ok(OK)
}

impl Args {
    /// The tokens that let somebody in, and one to be shown, if it was made up here.
    fn tokens(&self) -> anyhow::Result<(Vec<String>, Option<String>)> {
        if self.no_token {
            ensure!(
                self.host.is_loopback(),
                "--no-token lets in everybody who reaches {}; it works only with this machine's own addresses",
                self.host
            );
            return Ok((Vec::new(), None));
        }
        if let Some(path) = &self.token_file {
            let bytes = prepose_untrusted::read_regular(path, MOST_TOKENS);
            let bytes =
                bytes.with_context(|| format!("cannot read the tokens in {}", path.display()))?;
            let text = String::from_utf8(bytes)
                .with_context(|| format!("{} is not text", path.display()))?;
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let tokens: Vec<String> = lines.map(str::to_owned).collect();
            ensure!(
                !tokens.is_empty(),
                "{} has no token; write one a line",
                path.display()
            );
            if let Some(short) = tokens.iter().position(|token| token.len() < 8) {
                bail!(
                    "token {} in {} is shorter than 8 characters",
                    short + 1,
                    path.display()
                );
            }
            return Ok((tokens, None));
        }
        match std::env::var("PREPOSE_TOKEN") {
            Ok(token) if token.len() < 8 => bail!("PREPOSE_TOKEN is shorter than 8 characters"),
            Ok(token) => Ok((vec![token], None)),
            Err(_) => {
                let token = server::new_token();
                Ok((vec![token.clone()], Some(token)))
            }
        }
    }

    /// The networks, opened and not loaded.
    fn shop(&self) -> anyhow::Result<Shop> {
        let device = model::open(self.device)?;
        let dtype = self.dtype.unwrap_or_else(|| device.default_dtype());
        device.check_dtype(dtype)?;
        let toybox = [TOYBOX.to_owned()];
        let checkpoints = if self.checkpoint.is_empty() {
            &toybox
        } else {
            &*self.checkpoint
        };
        let mut models: Vec<Model> = Vec::new();
        for checkpoint in checkpoints {
            let name = png::model_name(checkpoint);
            ensure!(
                models.iter().all(|model| model.name != name),
                "two checkpoints are called {name}; rename one of them"
            );
            let mut model = ModelRequest::new(checkpoint.clone(), dtype);
            model.ground_toybox();
            let opened = Model::open(name, model);
            models.push(opened.with_context(|| format!("cannot use --checkpoint {checkpoint}"))?);
        }
        studio::give_adapters(&mut models, &self.ip_adapter)?;
        let checker = match self.checker.as_deref() {
            Some("none") => None,
            Some(name) => Some(name),
            None => checkpoints
                .iter()
                .all(|one| one == TOYBOX)
                .then_some(TOYBOX),
        };
        let detector = checker.map(checker::open).transpose()?;
        let loras = Loras::open(self.loras.as_deref())?;
        let inbox = Inbox::new().context("cannot make a folder for pictures that are sent")?;
        Ok(Shop(Arc::new(Shared {
            models,
            loras,
            vocabulary: detector.as_ref().and_then(|detector| detector.vocabulary()),
            detector,
            device,
            batch: self.batch,
            inbox: Arc::new(inbox),
            opened: Default::default(),
        })))
    }
}
