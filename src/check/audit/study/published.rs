//! The figures that papers print of their studies, and what follows from them.

use prepose_draw::table::{Cell, Table};
use prepose_statistics::agreement::{Weights, cohen_kappa};
use prepose_statistics::binary::Confusion;

/// Table 1 of Why Settle for Mid: Spearman, Kendall and Pearson with what people say of 2,000 pictures.
///
/// The three are equal for metrics that say yes or no, so what people say must have been a yes or no as well.
pub const PSG_1: [(&str, [f64; 3]); 8] = [
    ("VISOR", [0.551, 0.551, 0.551]),
    ("T2I-CompBench", [0.437, 0.423, 0.439]),
    ("HRS-Bench", [0.383, 0.364, 0.384]),
    ("CLIPScore", [0.269, 0.220, 0.268]),
    ("XVLM", [0.113, 0.092, 0.134]),
    ("ImageReward", [0.326, 0.266, 0.349]),
    ("PSE", [0.726, 0.642, 0.778]),
    ("PSE (0.5)", [0.755, 0.755, 0.755]),
];

/// Table 2 of the same, as printed: from which number on it is a yes; precision, recall, accuracy, specificity and F1 in
/// percent.
pub const PSG_2: [(&str, Option<f64>, [f64; 5]); 4] = [
    ("VISOR", None, [86.53, 62.26, 76.5, 90.49, 72.42]),
    ("HRS-Bench", None, [40.67, 72.14, 73.25, 73.53, 52.02]),
    (
        "T2I-CompBench",
        Some(0.1),
        [33.23, 88.43, 74.65, 72.52, 48.32],
    ),
    ("PSE", Some(0.5), [78.82, 88.78, 88.9, 88.95, 83.51]),
];

/// Table 3 of Order Is Not Layout: homogenization, and correctness with the order of mention aligned and reversed, in
/// percent; κ against people.
pub const OTS_3: [(&str, [f64; 6], Option<f64>); 5] = [
    (
        "llama-3.2-11b-vision",
        [97.1, 73.3, 97.0, 2.4, 89.7, 87.6],
        Some(0.62),
    ),
    (
        "Qwen3-VL-8B-Instruct",
        [94.2, 63.9, 85.3, 12.5, 90.4, 83.7],
        Some(0.81),
    ),
    (
        "InternVL3-8B",
        [90.2, 59.8, 84.8, 24.3, 94.9, 92.9],
        Some(0.72),
    ),
    (
        "llava-critic-r1-7b",
        [54.9, 60.2, 91.4, 23.8, 96.9, 95.2],
        Some(0.47),
    ),
    ("people", [90.3, 68.7, 82.0, 9.2, 89.8, 82.5], None),
];

/// Table 13 of the same: how often people said 0, 1 and 2 (rows) and the judge did (columns); the κ that is printed.
pub const OTS_13: [(&str, [[usize; 3]; 3], f64); 4] = [
    (
        "Qwen3-VL-8B-Instruct",
        [[224, 11, 4], [94, 1475, 30], [35, 56, 471]],
        0.81,
    ),
    (
        "llama-3.2-11b-vision",
        [[207, 19, 13], [103, 1377, 119], [31, 178, 353]],
        0.62,
    ),
    (
        "InternVL3-8B",
        [[209, 19, 11], [96, 1471, 32], [18, 154, 390]],
        0.72,
    ),
    (
        "llava-critic-r1-7b",
        [[183, 37, 19], [92, 1342, 165], [19, 281, 262]],
        0.47,
    ),
];

/// An axis with its mean and its standard deviation, on a scale from 1 to 7.
type Axis = (&'static str, f64, f64);

/// Table 19 of the same: 400 pictures of each model.
pub const OTS_19: [(&str, [Axis; 3]); 4] = [
    (
        "FLUX-dev",
        [
            ("overall", 4.37, 1.36),
            ("alignment", 3.69, 1.34),
            ("fidelity", 4.93, 1.48),
        ],
    ),
    (
        "FLUX-dev (SFT)",
        [
            ("overall", 4.65, 1.28),
            ("alignment", 4.53, 1.31),
            ("fidelity", 4.86, 1.24),
        ],
    ),
    (
        "Qwen-Image",
        [
            ("overall", 4.41, 1.19),
            ("alignment", 3.32, 0.96),
            ("fidelity", 5.08, 1.42),
        ],
    ),
    (
        "Qwen-Image (SFT)",
        [
            ("overall", 4.79, 1.41),
            ("alignment", 4.03, 1.45),
            ("fidelity", 5.24, 1.39),
        ],
    ),
];

/// κ, weighted κ and agreement of table 13's matrices, beside the κ that is printed.
pub fn ots_13() -> Table {
    let rows = OTS_13.iter().map(|(name, counts, printed)| {
        let counts: Vec<Vec<usize>> = counts.iter().map(|row| row.to_vec()).collect();
        let total: usize = counts.iter().flatten().sum();
        let same: usize = (0..3).map(|i| counts[i][i]).sum();
        let kappa = |weights| cohen_kappa(&counts, weights).map_or(Cell::Empty, Cell::Mean);
        vec![
            Cell::Name((*name).to_owned()),
            Cell::Count(total),
            Cell::Mean(same as f64 / total as f64),
            kappa(Weights::None),
            Cell::Mean(*printed),
        ]
    });
    let columns = ["judge", "labels", "agreement", "kappa", "kappa_printed"];
    Table::new("ots-13", &columns, rows)
}

/// A row of table 2, as shares of all pictures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// People say yes, and so does the metric.
    pub both: f64,
    /// The metric alone says yes.
    pub metric: f64,
    /// People alone say yes.
    pub people: f64,
    /// Neither does.
    pub neither: f64,
}

/// What the printed figures of a row of table 2 mean: recall, accuracy and specificity give how often the "truth" was yes,
/// and then all four shares. Taken as printed, the four metrics have four different truths: 50, 20, 13 and 32 % of the same
/// pictures. Taken with truth and metric exchanged, people say yes of 35.7 % beside each of them. So the table is printed
/// with the two exchanged: its precision is recall, and its recall precision.
pub fn psg_2_shares(row: &[f64; 5]) -> Shares {
    let [precision, recall, accuracy, ..] = row.map(|percent| percent / 100.0);
    // What the table calls true is what the metric says. With x = both: said by people x / precision, by the metric
    // x / recall, and accuracy = 1 - (x / precision - x) - (x / recall - x).
    let both = (1.0 - accuracy) / (1.0 / precision + 1.0 / recall - 2.0);
    let (people, metric) = (both / precision - both, both / recall - both);
    Shares {
        both,
        metric,
        people,
        neither: 1.0 - both - people - metric,
    }
}

/// Table 2 with truth and metric in their places; of 10,000 pictures, so that the shares are whole numbers.
pub fn psg_2() -> Table {
    let rows = PSG_2.iter().map(|(name, _, printed)| {
        let shares = psg_2_shares(printed);
        let count = |share: f64| (10_000.0 * share).round() as usize;
        let counts = Confusion {
            true_positives: count(shares.both),
            false_positives: count(shares.metric),
            true_negatives: count(shares.neither),
            false_negatives: count(shares.people),
        };
        let figures = [
            Some(shares.both + shares.people),
            Some(shares.both + shares.metric),
            counts.precision(),
            counts.recall(),
            counts.accuracy(),
            counts.specificity(),
            counts.f1(),
        ];
        let mut row = vec![Cell::Name((*name).to_owned())];
        row.extend(
            figures.map(|share| share.map_or(Cell::Empty, |share| Cell::Percent(100.0 * share))),
        );
        row
    });
    let columns = [
        "metric",
        "people_yes",
        "metric_yes",
        "precision",
        "recall",
        "accuracy",
        "specificity",
        "F1",
    ];
    Table::new("psg-2", &columns, rows)
}

/// Table 1 as printed.
pub fn psg_1() -> Table {
    let rows = PSG_1.iter().map(|(name, figures)| {
        let mut row = vec![Cell::Name((*name).to_owned())];
        row.extend(figures.map(Cell::Mean));
        row
    });
    Table::new("psg-1", &["metric", "spearman", "kendall", "pearson"], rows)
}

/// Table 3 as printed.
pub fn ots_3() -> Table {
    let rows = OTS_3.iter().map(|(name, figures, kappa)| {
        let mut row = vec![Cell::Name((*name).to_owned())];
        row.extend(figures.map(Cell::Percent));
        row.push(kappa.map_or(Cell::Empty, Cell::Mean));
        row
    });
    let mut columns = vec!["judge"];
    columns.extend(super::ots::FIGURES);
    columns.push("kappa");
    Table::new("ots-3", &columns, rows)
}

/// Table 19 as printed.
pub fn ots_19() -> Table {
    let rows = OTS_19.iter().flat_map(|(model, axes)| {
        axes.iter().map(move |(axis, mean, deviation)| {
            let names = [model, axis].map(|name| Cell::Name(name.to_string()));
            let mut row = names.to_vec();
            row.extend([Cell::Mean(*mean), Cell::Mean(*deviation)]);
            row
        })
    });
    Table::new("ots-19", &["model", "axis", "mean", "deviation"], rows)
}
