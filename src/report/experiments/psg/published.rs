//! The figures of the paper (arXiv 2506.23418).

/// Published VISOR figures in percent: OA, unconditional, conditional, 1 to 4.
pub(super) type Published = (&'static str, [f64; 7]);

/// Table 4 of the paper: 5,000 of VISOR's prompts, four pictures each. "(2)" has "and" for the relation in the prompt.
pub(super) const PUBLISHED: [Published; 8] = [
    ("SD 1.4", [29.6, 18.84, 63.65, 46.16, 20.12, 7.26, 1.82]),
    ("SD 2.1", [48.66, 30.9, 63.5, 65.2, 36.5, 17.1, 4.8]),
    (
        "Getting it Right",
        [60.55, 44.05, 72.75, 71.14, 52.66, 33.92, 18.48],
    ),
    ("SD XL", [65.74, 45.01, 68.46, 78.52, 55.38, 32.98, 13.16]),
    (
        "SD 1.4 + PSG (1)",
        [35.29, 30.0, 85.0, 60.48, 34.74, 18.32, 6.46],
    ),
    (
        "SD 1.4 + PSG (2)",
        [44.92, 39.98, 89.0, 71.58, 47.72, 28.56, 12.06],
    ),
    (
        "SDXL + PSG (1)",
        [76.8, 74.8, 97.4, 93.52, 84.72, 70.88, 50.08],
    ),
    (
        "SDXL + PSG (2)",
        [80.02, 77.35, 96.6, 94.98, 87.02, 74.36, 53.04],
    ),
];

/// Table 15: prompts of so many objects; PSE and VISOR in percent, averaged over the relations.
pub(super) const PUBLISHED_SEVERAL: [(usize, &str, f64, f64); 4] = [
    (3, "SDXL", 30.8, 57.0),
    (3, "SDXL + PSG", 63.8, 72.5),
    (4, "SDXL", 31.5, 54.0),
    (4, "SDXL + PSG", 68.4, 58.0),
];

/// Table 16: PSE and centre accuracy in percent, without search and with the best of 2, 4, 8 and 16.
pub(super) const PUBLISHED_SCALING: [(&str, [(f64, f64); 5]); 2] = [
    (
        "SDXL",
        [
            (29.39, 43.0),
            (40.07, 64.0),
            (55.56, 76.0),
            (67.14, 86.0),
            (78.23, 93.0),
        ],
    ),
    (
        "SD2.1",
        [
            (16.07, 32.0),
            (29.25, 50.0),
            (43.70, 75.0),
            (60.94, 89.0),
            (77.52, 95.0),
        ],
    ),
];
