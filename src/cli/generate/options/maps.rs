//! Attention maps that are written.

use std::path::PathBuf;

use prepose::attention_maps::{Half, MapSelection};
use prepose::guidance::maps::LayerRule;
use prepose::make::MapOptions;

use crate::cli::values::{Numbers, parse_numbers};

/// Show where the network looks (docs/attention-maps.md).
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Attention maps")]
pub struct MapArgs {
    /// The folder for maps of where the network looks.
    ///
    /// A heat map over the picture for each object, sheets over time, and the values. Of a prompt that changes on the way,
    /// only steps with the final prompt are read; of a negative prompt likewise.
    #[arg(long, value_name = "FOLDER", help_heading = "Output")]
    pub(in crate::cli::generate) attention_maps: Option<PathBuf>,
    /// Cells along the shorter side of the maps [default: the smallest maps with at least 12].
    #[arg(
        long,
        value_name = "CELLS",
        requires = "attention_maps",
        hide_short_help = true,
        conflicts_with = "attention_layers"
    )]
    pub(in crate::cli::generate) attention_resolution: Option<usize>,
    /// Layers to read, by name, such as up_blocks.1,mid_block.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        requires = "attention_maps",
        hide_short_help = true
    )]
    pub(in crate::cli::generate) attention_layers: Vec<String>,
    /// Words of the prompt to show instead of its objects, or of the negative prompt with --attention-half negative.
    #[arg(
        long,
        value_name = "WORDS",
        value_delimiter = ',',
        requires = "attention_maps",
        hide_short_help = true
    )]
    pub(in crate::cli::generate) attention_words: Vec<String>,
    /// Heads to read, counted from 0: 0-3 or 1,5 [default: all].
    #[arg(
        long,
        value_name = "LIST",
        value_parser = parse_numbers,
        requires = "attention_maps",
        hide_short_help = true
    )]
    pub(in crate::cli::generate) attention_heads: Option<Numbers>,
    /// Read maps once every STEPS steps.
    #[arg(
        long,
        value_name = "STEPS",
        default_value_t = 1,
        requires = "attention_maps",
        hide_short_help = true
    )]
    pub(in crate::cli::generate) attention_every: usize,
    /// Which half of classifier-free guidance to read.
    ///
    /// The negative half shows words of the negative prompt, which --attention-words names; it is there with a
    /// --guidance-scale above 1.
    #[arg(
        long,
        value_name = "HALF",
        value_enum,
        default_value_t,
        requires = "attention_maps",
        hide_short_help = true
    )]
    pub(in crate::cli::generate) attention_half: Half,
}

impl MapArgs {
    /// Which maps they ask for.
    pub(in crate::cli::generate) fn options(&self) -> Option<MapOptions> {
        self.attention_maps.as_ref()?;
        let layers = match self.attention_layers.as_slice() {
            [] => LayerRule::Size {
                side: self.attention_resolution,
                down_only: false,
            },
            names => LayerRule::Named(names.to_vec()),
        };
        Some(MapOptions {
            selection: MapSelection {
                layers,
                heads: self.attention_heads.as_ref().map(|heads| heads.0.clone()),
                every: self.attention_every,
                half: self.attention_half,
                ..MapSelection::default()
            },
            words: self.attention_words.clone(),
        })
    }
}
