//! What is published: tables 4, 6 and 7 of Order Is Not Layout (arXiv 2603.03714), and its authors' rebuttal.

/// A model of table 4, in percent; none of what it was not asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    pub name: &'static str,
    /// Text to image: homogenization.
    pub homogenization: f64,
    /// Pictures that did not count for it, from the rebuttal.
    pub invalid: Option<f64>,
    /// Text to image: accuracy aligned and reverse.
    pub correctness: [f64; 2],
    /// Image to image: homogenization.
    pub edit: Option<f64>,
    /// Image to image: accuracy aligned and reverse.
    pub edit_correctness: Option<[f64; 2]>,
}

const fn model(
    name: &'static str,
    homogenization: f64,
    edit: Option<f64>,
    correctness: [f64; 2],
    edit_correctness: Option<[f64; 2]>,
) -> Model {
    Model {
        name,
        homogenization,
        invalid: None,
        correctness,
        edit,
        edit_correctness,
    }
}

const fn invalid(model: Model, invalid: f64) -> Model {
    Model {
        invalid: Some(invalid),
        ..model
    }
}

/// Table 4. Of DALL-E 3 it has nothing about edits.
pub(super) const MODELS: [Model; 9] = [
    invalid(
        model("SDXL", 52.6, Some(55.8), [83.3, 23.6], Some([73.5, 62.2])),
        34.41,
    ),
    invalid(
        model("SD3.5", 84.2, Some(38.4), [84.8, 21.1], Some([79.5, 71.8])),
        13.82,
    ),
    invalid(
        model(
            "FLUX-dev",
            88.8,
            Some(42.6),
            [79.8, 24.7],
            Some([84.3, 76.8]),
        ),
        12.82,
    ),
    model(
        "Qwen-Image",
        91.6,
        Some(83.4),
        [81.8, 28.2],
        Some([88.1, 78.8]),
    ),
    model("DALL-E 3", 70.4, None, [87.7, 18.2], None),
    model(
        "Midjourney v7",
        86.8,
        Some(63.2),
        [90.2, 21.7],
        Some([87.3, 82.1]),
    ),
    model(
        "Kling-v2",
        77.2,
        Some(82.6),
        [93.6, 14.1],
        Some([81.3, 75.6]),
    ),
    model(
        "GPT-Image",
        86.4,
        Some(35.4),
        [79.5, 15.3],
        Some([94.4, 79.6]),
    ),
    model(
        "Nanobanana 1",
        81.0,
        Some(51.8),
        [93.2, 17.6],
        Some([96.3, 91.9]),
    ),
];

/// The rebuttal's table 4b, of a hundred pictures each: homogenization up and down, and what did not count.
pub(super) const LEVELS: [(&str, f64, f64); 3] = [
    ("SD3.5", 3.6, 44.0),
    ("FLUX-dev", 28.6, 34.0),
    ("Qwen-Image", 18.8, 31.0),
];

/// Table 7, for FLUX-dev, in percent: at the base, and after 1 to 5 steps.
pub(super) const FLUX: [(&str, [f64; 6]); 4] = [
    ("A2B", [100.0, 25.0, 14.8, 11.1, 3.2, 2.2]),
    ("B2A", [100.0, 23.0, 17.8, 5.5, 2.4, 1.2]),
    ("N2A", [89.9, 28.8, 21.8, 27.2, 34.1, 39.1]),
    ("N2B", [85.0, 31.1, 15.7, 20.0, 27.1, 41.6]),
];

/// Of [`FLUX`], after a number of steps.
pub(super) fn flux(setting: &str, moment: &str) -> Option<f64> {
    let steps: usize = moment.parse().ok()?;
    let known = FLUX.iter().find(|(name, _)| *name == setting)?;
    known.1.get(steps).copied()
}

/// Table 6, text to image, before and after the cure: homogenization, and accuracy aligned and reversed.
pub(super) const CURED: [(&str, [f64; 3]); 4] = [
    ("FLUX-dev", [88.8, 79.8, 24.7]),
    ("FLUX-dev (SFT)", [47.4, 83.2, 49.3]),
    ("Qwen-Image", [91.6, 81.8, 28.2]),
    ("Qwen-Image (SFT)", [50.8, 84.7, 57.7]),
];
