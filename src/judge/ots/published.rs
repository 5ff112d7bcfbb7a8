//! The paper's own figures.

use prepose_draw::table::{Cell, Table};

/// A model with homogenization of text and of pictures, and correctness aligned and reversed of both, in percent.
type Published = (&'static str, [Option<f64>; 6]);

/// Table 4 of the paper, judged by Qwen3-VL-8B-Instruct.
const PUBLISHED: [Published; 9] = [
    (
        "SDXL",
        [
            Some(52.6),
            Some(55.8),
            Some(83.3),
            Some(23.6),
            Some(73.5),
            Some(62.2),
        ],
    ),
    (
        "SD3.5",
        [
            Some(84.2),
            Some(38.4),
            Some(84.8),
            Some(21.1),
            Some(79.5),
            Some(71.8),
        ],
    ),
    (
        "FLUX-dev",
        [
            Some(88.8),
            Some(42.6),
            Some(79.8),
            Some(24.7),
            Some(84.3),
            Some(76.8),
        ],
    ),
    (
        "Qwen-Image",
        [
            Some(91.6),
            Some(83.4),
            Some(81.8),
            Some(28.2),
            Some(88.1),
            Some(78.8),
        ],
    ),
    (
        "DALL-E 3",
        [Some(70.4), None, Some(87.7), Some(18.2), None, None],
    ),
    (
        "Midjourney v7",
        [
            Some(86.8),
            Some(63.2),
            Some(90.2),
            Some(21.7),
            Some(87.3),
            Some(82.1),
        ],
    ),
    (
        "Kling-v2",
        [
            Some(77.2),
            Some(82.6),
            Some(93.6),
            Some(14.1),
            Some(81.3),
            Some(75.6),
        ],
    ),
    (
        "GPT-Image",
        [
            Some(86.4),
            Some(35.4),
            Some(79.5),
            Some(15.3),
            Some(94.4),
            Some(79.6),
        ],
    ),
    (
        "Nanobanana 1",
        [
            Some(81.0),
            Some(51.8),
            Some(93.2),
            Some(17.6),
            Some(96.3),
            Some(91.9),
        ],
    ),
];

/// The paper's nine models.
pub fn published() -> Table {
    let rows = PUBLISHED.iter().map(|(model, figures)| {
        let mut row = vec![Cell::Name((*model).to_owned())];
        row.extend(figures.map(|figure| figure.map_or(Cell::Empty, Cell::Percent)));
        row
    });
    let columns = [
        "model",
        "t2i_homogenization",
        "i2i_homogenization",
        "t2i_aligned",
        "t2i_reverse",
        "i2i_aligned",
        "i2i_reverse",
    ];
    Table::new("published", &columns, rows)
}
