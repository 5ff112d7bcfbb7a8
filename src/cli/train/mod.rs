//! `prepose train`

mod args;
mod steer;
mod told;

use prepose::train::recipe::Kind;
use prepose::train::run::{Job, run as train};

use super::run::{of_one_piece, seeds_by_default};
use super::{OK, interrupt, model};
use args::{Common, GligenArgs, IpAdapterArgs, LoraArgs, UnetArgs, Usual};
use steer::SteerArgs;
pub use told::Told;

/// Train a LoRA, GLIGEN's layers, an IP-Adapter, a classifier of relations, or the UNet itself (docs/training.md).
///
/// A training that was stopped or killed resumes with the same command; on the CPU it ends with the same bytes as one that was not.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose train lora photos --rank 16 --steps 1000 --out runs/dog        # photos has metadata.jsonl, or texts beside pictures
  prepose train lora runs/first --flips without-sides --steps 2000 --out runs/cured   # the pictures of a run that passed
  prepose train gligen boxed --steps 5000 --batch 8 --out runs/gligen    # boxed/metadata.jsonl has phrases with boxes
  prepose train ip-adapter faces --image-encoder models/image_encoder --out runs/ip   # pictures are shown to the network
  prepose generate \"a dog and a cat\" --lora runs/dog/lora.safetensors")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Low-rank changes to the UNet's layers, in a file of their own
    Lora(Box<LoraArgs>),
    /// GLIGEN's layers, which put objects into boxes: on pictures with phrases and boxes
    Gligen(Box<GligenArgs>),
    /// An IP-Adapter, which shows pictures to the network: each training picture itself, or another one of the same thing
    IpAdapter(Box<IpAdapterArgs>),
    /// The UNet itself, into a checkpoint of its own
    Unet(Box<UnetArgs>),
    /// A classifier of relations for `--guide steer` (Learn-to-Steer; docs/guidance/steer.md)
    #[command(after_help = "Examples:
  prepose train steer --out runs/steer                                       # the toybox
  prepose train steer --pictures runs/first --out runs/steer                 # pictures of a run, as its checker saw them
  prepose train steer --checkpoint sd15.safetensors --checker frcnn-v2 --device cuda --out runs/steer-sd15
  prepose generate \"a dog to the left of a cat\" --guide steer --steer runs/steer/steer.safetensors")]
    #[command(mut_args(of_one_piece()), mut_arg("pictures", of_a_run), mut_arg("seeds", |seeds| seeds_by_default(seeds, "1000")))]
    Steer(Box<SteerArgs>),
}

/// What a run's option for pictures from elsewhere means here.
fn of_a_run(pictures: clap::Arg) -> clap::Arg {
    pictures
        .value_name("RUN")
        .help("Train on the pictures of this run, which has a checker, instead of making some")
        .help_heading("Pictures")
        .hide(false)
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    match &args.command {
        Command::Lora(args) => {
            let job = args.common.job(args.kind()?, Usual::with_rate(1e-4))?;
            carry_out(&args.common, &job, quiet)
        }
        Command::Steer(args) => steer::run(args, quiet),
        Command::Unet(args) => {
            let kind = Kind::Unet {
                parts: args.only.clone(),
            };
            let job = args.common.job(kind, Usual::with_rate(1e-5))?;
            carry_out(&args.common, &job, quiet)
        }
        Command::Gligen(args) => {
            let kind = Kind::Gligen {
                grounding_dropout: args.grounding_dropout,
            };
            let mut job = args.common.job(kind, Usual::gligen())?;
            job.model.gligen.clone_from(&args.gligen);
            carry_out(&args.common, &job, quiet)
        }
        Command::IpAdapter(args) => carry_out(&args.common, &args.job()?, quiet),
    }
}

fn carry_out(args: &Common, job: &Job, quiet: bool) -> anyhow::Result<u8> {
    let device = model::open(args.device)?;
    device.check_dtype(job.recipe.dtype)?;
    let stop = interrupt::listen()?;
    let mut told = Told::new(args.json, quiet);
    let done = train(job, &device, &stop, &mut |event| told.tell(event));
    told.finish();
    done?;
    Ok(OK)
}
