//! What commands that make pictures ask about memory (docs/memory.md).

use std::fmt;
use std::str::FromStr;

use prepose::engine::{Engine, EngineError};
use prepose::request::Request;
use prepose_models::unet::{GraphUse, Memory};

/// `--batch`: how many pictures are made at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// As many as memory has room for.
    Auto,
    /// At most so many.
    Pictures(usize),
}

impl FromStr for Batch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("auto", _) => Ok(Batch::Auto),
            (_, Ok(pictures)) if pictures > 0 => Ok(Batch::Pictures(pictures)),
            _ => Err("must be auto or at least 1".into()),
        }
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Batch::Auto => f.write_str("auto"),
            Batch::Pictures(pictures) => pictures.fmt(f),
        }
    }
}

impl Batch {
    /// The most pictures at a time. What is chosen is at most `most` on the CPU, where larger batches gain little.
    pub fn choose(
        self,
        engine: &Engine,
        request: &Request,
        most: usize,
    ) -> Result<usize, EngineError> {
        match self {
            Batch::Pictures(pictures) => Ok(pictures),
            Batch::Auto => {
                let room = engine.roomy_batch(request)?;
                let chosen = if engine.is_on_cpu() {
                    room.min(most)
                } else {
                    room
                };
                tracing::info!("up to {chosen} pictures at a time");
                Ok(chosen)
            }
        }
    }
}

/// `--vae-tiling`: whether pictures go through the autoencoder in tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Tiling {
    /// Where a whole picture does not fit into memory.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

impl Tiling {
    /// What it means for `request`, and a line on the log where memory decides.
    pub fn choose(self, engine: &Engine, request: &Request) -> Result<bool, EngineError> {
        Ok(match self {
            Tiling::On => true,
            Tiling::Off => false,
            Tiling::Auto => {
                let tiles = engine.must_tile(request)?;
                if tiles {
                    tracing::warn!(
                        "memory is short: pictures of {}x{} are decoded in tiles (--vae-tiling=off tries without)",
                        request.width,
                        request.height
                    );
                }
                tiles
            }
        })
    }
}

/// How the networks run.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "Networks")]
pub struct RunningArgs {
    /// Launch the UNet kernel by kernel instead of replaying its captured call (CUDA graphs and their like).
    #[arg(long)]
    pub no_graphs: bool,
    /// Guidance: run parts of the network twice instead of keeping what the gradient needs; pictures do not change.
    #[arg(long)]
    pub guide_save_memory: bool,
}

impl RunningArgs {
    /// `engine` as asked for.
    pub fn apply(&self, engine: Engine) -> Engine {
        let memory = if self.guide_save_memory {
            Memory::Recompute
        } else {
            Memory::Keep
        };
        let graphs = if self.no_graphs {
            GraphUse::Off
        } else {
            GraphUse::Auto
        };
        engine.with_guidance_memory(memory).with_graphs(graphs)
    }
}
