//! Which pictures are trained on, and how they are brought to size.

use clap::ValueEnum;
use prepose::train::dataset::Options;
use prepose::train::dataset::bucket::Buckets;
use prepose::train::dataset::order::Flips;
use prepose::train::dataset::sides::SideWords;
use prepose::train::recipe::Beside;

/// Flipped samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlipArg {
    /// None
    None,
    /// Mirror images of pictures whose captions name no side
    WithoutSides,
    /// Mirror images of all, with left and right swapped in their captions
    Swap,
    /// Mirror images of all, with the captions as they are
    All,
    /// The same pictures with their two objects named in the other order
    Exchange,
}

/// What is taken of the data.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Pictures")]
pub struct Pictures {
    /// The size that pictures are resized to [default: the checkpoint's].
    #[arg(long, value_name = "PIXELS|WxH", value_parser = size)]
    pub resolution: Option<[usize; 2]>,
    /// Use sizes of other shapes with about the same area, chosen as kohya does.
    #[arg(long)]
    buckets: bool,
    /// The shortest side of a bucket [default: half the resolution].
    #[arg(
        long,
        value_name = "PIXELS",
        requires = "buckets",
        hide_short_help = true
    )]
    bucket_min: Option<usize>,
    /// The longest side of a bucket [default: twice the resolution].
    #[arg(
        long,
        value_name = "PIXELS",
        requires = "buckets",
        hide_short_help = true
    )]
    bucket_max: Option<usize>,
    /// The sides of buckets are multiples of this [default: 64, or about an eighth of a smaller resolution].
    #[arg(
        long,
        value_name = "PIXELS",
        requires = "buckets",
        hide_short_help = true
    )]
    bucket_step: Option<usize>,
    /// Do not enlarge small pictures: they get a bucket of their own size.
    #[arg(long, requires = "buckets", hide_short_help = true)]
    no_upscale: bool,
    /// Add mirror images, or captions in the other order, as samples of their own.
    #[arg(long, value_name = "WHICH", value_enum, default_value = "none")]
    flips: FlipArg,
    /// The name of the column or key that holds the captions.
    #[arg(long, value_name = "NAME")]
    caption_column: Option<String>,
    /// The caption for pictures that have none.
    #[arg(long, value_name = "TEXT")]
    caption: Option<String>,
    /// From a run: take the pictures with these verdicts, or all [default: PASS].
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        hide_short_help = true
    )]
    verdicts: Option<Vec<String>>,
    /// From a run: take the pictures of these methods [default: all].
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        hide_short_help = true
    )]
    methods: Vec<String>,
    /// The largest share of pictures that may be unusable.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.1,
        hide_short_help = true
    )]
    most_skipped: f64,
}

/// Reads `512` or `640x448`.
fn size(text: &str) -> Result<[usize; 2], String> {
    let side = |text: &str| match text.trim().parse() {
        Ok(side @ 8..=16_384) => Ok(side),
        _ => Err(format!(
            "{text:?} is not a side of a picture: from 8 to 16384 pixels"
        )),
    };
    match text.split_once('x') {
        Some((width, height)) => Ok([side(width)?, side(height)?]),
        None => side(text).map(|side| [side, side]),
    }
}

impl Pictures {
    /// What pictures come as besides themselves.
    pub fn flips(&self) -> Flips {
        match self.flips {
            FlipArg::None => Flips::None,
            FlipArg::WithoutSides => Flips::Both(SideWords::LeaveOut),
            FlipArg::Swap => Flips::Both(SideWords::Swap),
            FlipArg::All => Flips::Both(SideWords::Keep),
            FlipArg::Exchange => Flips::Exchange,
        }
    }

    /// What is taken of the data, where pictures come with `beside`.
    pub fn options(&self, beside: Beside) -> Options {
        let all = |verdict: &String| verdict.eq_ignore_ascii_case("all");
        let verdicts = |named: &Vec<String>| match named.iter().any(all) {
            true => Vec::new(),
            false => named.clone(),
        };
        Options {
            caption_column: self.caption_column.clone(),
            caption: self.caption.clone(),
            verdicts: self.verdicts.as_ref().map(verdicts),
            methods: self.methods.clone(),
            objects: beside == Beside::Objects,
            shown: beside == Beside::Shown,
            most_skipped: self.most_skipped,
        }
    }

    /// The sizes of other shapes than the resolution, if they are asked for.
    pub fn buckets(&self, [width, height]: [usize; 2]) -> anyhow::Result<Option<Buckets>> {
        if !self.buckets {
            return Ok(None);
        }
        let shorter = width.min(height);
        // Whole latents, of eight pixels.
        let step = self.bucket_step.unwrap_or((shorter / 64 * 8).clamp(8, 64));
        let buckets = Buckets {
            shortest: self.bucket_min.unwrap_or(shorter / 2),
            longest: self.bucket_max.unwrap_or(2 * width.max(height)),
            step,
            no_upscale: self.no_upscale,
        };
        anyhow::ensure!(
            step > 0 && buckets.shortest >= step && buckets.shortest <= shorter,
            "the shortest side of buckets is {}, but must be from their step, {step}, to the resolution, {shorter}",
            buckets.shortest
        );
        anyhow::ensure!(
            buckets.longest >= shorter,
            "the longest side of buckets is {}, but must be at least the resolution, {shorter}",
            buckets.longest
        );
        Ok(Some(buckets.in_steps()))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        pictures: Pictures,
    }

    #[test]
    fn verdicts_are_those_that_are_named() {
        let verdicts = |more: &[&str]| {
            let args = [&["train"], more].concat();
            let pictures = Program::try_parse_from(args).unwrap().pictures;
            pictures.options(Beside::Nothing).verdicts
        };
        assert_eq!(verdicts(&[]), None);
        let two = vec!["PASS".to_owned(), "fail".to_owned()];
        assert_eq!(verdicts(&["--verdicts", "PASS,fail"]), Some(two));
        assert_eq!(verdicts(&["--verdicts", "PASS,All"]), Some(Vec::new()));
    }

    #[test]
    fn sides_of_buckets_are_multiples_of_their_step() {
        let sides = |side: usize, more: &[&str]| {
            let args = [&["train", "--buckets"], more].concat();
            let pictures = Program::try_parse_from(args).unwrap().pictures;
            let buckets = pictures.buckets([side, side]).unwrap().unwrap();
            (buckets.step, buckets.shortest, buckets.longest)
        };
        // A half and twice the resolution, in steps.
        assert_eq!(sides(512, &[]), (64, 256, 1024));
        assert_eq!(sides(576, &[]), (64, 256, 1152));
        // An eighth of 400 is 50, and latents have 8 pixels a side.
        assert_eq!(sides(400, &[]), (48, 192, 816));
        assert_eq!(sides(512, &["--bucket-min", "100"]), (64, 64, 1024));
    }
}
