//! What commands that make pictures ask about memory (docs/memory.md).

use prepose::engine::{Engine, EngineError};
use prepose::request::Request;
use prepose_models::unet::{GraphUse, Memory};

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
    /// Launch the UNet kernel by kernel instead of replaying its captured call (CUDA graphs and the like).
    #[arg(long, hide_short_help = true)]
    pub no_graphs: bool,
    /// Guidance: run parts of the network twice instead of keeping what the gradient needs; pictures do not change.
    #[arg(long, hide_short_help = true)]
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
