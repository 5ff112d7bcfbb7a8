//! What is measured, and what came of it.

use serde::{Deserialize, Serialize};

use crate::guidance::pos::Pos;
use crate::guidance::{GuidanceConfig, Layers, METHODS};
use crate::request::{Dtype, ModelRequest, Savings};

/// What pictures are of: two objects with a relation, as guidance and the checker need them.
pub const PROMPT: &str = "a dog to the left of a cat";
/// Tokens of a text.
pub const TOKENS: usize = 77;
/// Candidates of a search.
pub const BEST_OF: usize = 16;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A product of two square matrices: the speed that nothing else can exceed.
    Matmul,
    /// A checkpoint from the disk onto the device.
    Load,
    /// A prompt and an empty negative prompt through the text encoders.
    Text,
    /// One call of the UNet with both halves of classifier-free guidance: two rows a picture.
    Unet,
    /// The same call, with the time of each family of operations.
    Families,
    /// One step of denoising: the UNet, classifier-free guidance and the scheduler.
    Step,
    /// The same step with guidance by attention.
    Guided,
    /// Latents to pictures on the device, one after the other.
    Decode,
    /// Whole pictures: text, steps, decoding, and the pixels on the host.
    Picture,
    /// Best of sixteen pictures by the checker.
    Search,
    /// From the start of the program to a picture in a file.
    Start,
}

impl What {
    /// As `--only` and the JSON spell it.
    pub fn name(self) -> &'static str {
        match self {
            What::Matmul => "matmul",
            What::Load => "load",
            What::Text => "text",
            What::Unet => "unet",
            What::Families => "families",
            What::Step => "step",
            What::Guided => "guided",
            What::Decode => "decode",
            What::Picture => "picture",
            What::Search => "search",
            What::Start => "start",
        }
    }
}

/// One thing to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The kind of work.
    pub what: What,
    /// Which guidance, or what else tells rows of one kind apart; empty for nothing.
    #[serde(default)]
    pub variant: String,
    /// A short name of the checkpoint; empty where there is none.
    pub model: String,
    /// What opens it.
    pub checkpoint: String,
    /// The type of the weights.
    pub dtype: Dtype,
    /// The side of the pictures in pixels; of matrices, in elements.
    pub size: usize,
    /// Pictures at a time.
    pub batch: usize,
    /// Steps of a whole picture.
    pub steps: usize,
    /// Timed calls, after one that is not counted.
    pub repeats: usize,
    /// What is left out of the UNet's calls.
    #[serde(default, skip_serializing_if = "Savings::is_none")]
    pub savings: Savings,
}

impl Row {
    /// What loads its checkpoint.
    pub fn model_request(&self) -> ModelRequest {
        ModelRequest::new(&self.checkpoint, self.dtype)
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.what.name())?;
        if !self.variant.is_empty() {
            write!(f, " ({})", self.variant)?;
        }
        let dtype = format!("{:?}", self.dtype).to_lowercase();
        match self.what {
            What::Matmul => write!(f, " {}², {dtype}", self.size),
            What::Load => write!(f, " {}, {dtype}", self.model),
            _ => write!(
                f,
                " {} {}², {dtype}, batch {}",
                self.model, self.size, self.batch
            ),
        }
    }
}

/// The time of one family of operations in one call of the UNet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FamilyTime {
    /// Its name; `rest` for what is between the operations.
    pub family: String,
    /// Calls of it.
    pub calls: u64,
    /// In all calls together.
    pub seconds: f64,
    /// Its multiplications and additions.
    pub flops: u64,
}

/// What came of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What was measured.
    #[serde(flatten)]
    pub row: Row,
    /// Of the call that does not count: compilation and tuning are in it.
    #[serde(default)]
    pub first_seconds: Option<f64>,
    /// Of each call that counts, in order.
    #[serde(default)]
    pub seconds: Vec<f64>,
    /// Of each call that counts, what the processors worked for it; on the CPU only, where it says what a call
    /// takes though others use the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_seconds: Vec<f64>,
    /// Multiplications and additions of a call's matrix products, where they are known.
    #[serde(default)]
    pub flops: Option<u64>,
    /// The most memory in use, weights included: the device's, or the process's on the CPU.
    #[serde(default)]
    pub peak_bytes: Option<u64>,
    /// Of that, beyond what was in use before.
    #[serde(default)]
    pub extra_bytes: Option<u64>,
    /// Where the time goes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<FamilyTime>,
    /// Why there are no seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Outcome {
    /// A row that could not be measured.
    pub fn failed(row: &Row, problem: impl Into<String>) -> Self {
        Self {
            problem: Some(problem.into()),
            ..Self::empty(row)
        }
    }

    /// A row that is still to be measured.
    pub fn empty(row: &Row) -> Self {
        Self {
            row: row.clone(),
            first_seconds: None,
            seconds: Vec::new(),
            cpu_seconds: Vec::new(),
            flops: None,
            peak_bytes: None,
            extra_bytes: None,
            families: Vec::new(),
            problem: None,
        }
    }

    /// The median of the calls that count: of an even number, the mean of the middle two.
    pub fn median(&self) -> Option<f64> {
        median(&self.seconds)
    }

    /// The median of the processors' seconds.
    pub fn cpu_median(&self) -> Option<f64> {
        median(&self.cpu_seconds)
    }

    /// Slowest less fastest call, as a share of the median; none of a single call.
    pub fn spread(&self) -> Option<f64> {
        if self.seconds.len() < 2 {
            return None;
        }
        let fastest = self.seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let slowest = self.seconds.iter().copied().fold(0.0, f64::max);
        Some((slowest - fastest) / self.median()?)
    }

    /// Operations in a second.
    pub fn flop_rate(&self) -> Option<f64> {
        Some(self.flops? as f64 / self.median()?)
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The guided steps that are measured, by name: those of every method that goes with any checkpoint, and PoS guidance made cheaper.
pub fn guided_variants() -> Vec<(&'static str, GuidanceConfig)> {
    let cheaper = |layers, one_pass| GuidanceConfig {
        layers,
        one_pass,
        ..GuidanceConfig::new(&Pos)
    };
    let cheap = Some(Layers::Cheap);
    // What is learned belongs to one checkpoint, and random ones have learned nothing.
    let mut variants: Vec<_> = (METHODS.iter())
        .filter(|method| !method.is_learned())
        .map(|method| (method.name(), GuidanceConfig::new(*method)))
        .collect();
    variants.extend([
        ("pos, cheap layers", cheaper(cheap.clone(), false)),
        ("pos, one pass", cheaper(None, true)),
        ("pos, cheap layers, one pass", cheaper(cheap, true)),
    ]);
    variants
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row(what: What) -> Row {
        Row {
            what,
            variant: String::new(),
            model: "sd15".into(),
            checkpoint: "/weights/sd15".into(),
            dtype: Dtype::F16,
            size: 512,
            batch: 1,
            steps: 20,
            repeats: 5,
            savings: Savings::default(),
        }
    }

    #[test]
    fn medians_and_spreads() {
        let mut outcome = Outcome::empty(&row(What::Unet));
        assert_eq!((outcome.median(), outcome.spread()), (None, None));
        outcome.seconds = vec![2.0];
        assert_eq!((outcome.median(), outcome.spread()), (Some(2.0), None));
        outcome.seconds = vec![3.0, 1.0, 2.0];
        assert_eq!((outcome.median(), outcome.spread()), (Some(2.0), Some(1.0)));
        outcome.seconds.push(4.0);
        assert_eq!(outcome.median(), Some(2.5));
        outcome.flops = Some(5);
        assert_eq!(outcome.flop_rate(), Some(2.0));
    }

    #[test]
    fn an_outcome_is_a_row_with_more() {
        let outcome = Outcome::failed(&row(What::Guided), "out of memory");
        let text = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), outcome.row);
        assert!(text.starts_with(r#"{"what":"guided","#), "{text}");
    }

    #[test]
    fn rows_say_what_they_are() {
        let text = |what| row(what).to_string();
        assert_eq!(text(What::Unet), "unet sd15 512², f16, batch 1");
        assert_eq!(text(What::Matmul), "matmul 512², f16");
        assert_eq!(text(What::Load), "load sd15, f16");
    }
}
