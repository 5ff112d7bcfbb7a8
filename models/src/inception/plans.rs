//! What the blocks of Inception-v3 are made of.

use super::Pool;

/// Name, outputs (of the published network) and kernel of a convolution.
type Spec = (&'static str, usize, [usize; 2]);

/// What a block is made of.
pub struct Plan {
    pub name: &'static str,
    /// The convolutions of each branch, and how many at its end lie side by side.
    pub branches: Vec<(Vec<Spec>, usize)>,
    /// The pool and the outputs of the convolution after it; none where the block halves the picture, as its branches' last
    /// ones do.
    pub pooled: Option<(Pool, usize)>,
}

const fn square(name: &'static str, outputs: usize, side: usize) -> Spec {
    (name, outputs, [side, side])
}

const fn row(name: &'static str, outputs: usize, length: usize) -> Spec {
    (name, outputs, [1, length])
}

const fn column(name: &'static str, outputs: usize, length: usize) -> Spec {
    (name, outputs, [length, 1])
}

/// The blocks at a stride of 8.
fn fine(name: &'static str, pooled: usize) -> Plan {
    let branches = vec![
        (vec![square("branch1x1", 64, 1)], 0),
        (
            vec![square("branch5x5_1", 48, 1), square("branch5x5_2", 64, 5)],
            0,
        ),
        (
            vec![
                square("branch3x3dbl_1", 64, 1),
                square("branch3x3dbl_2", 96, 3),
                square("branch3x3dbl_3", 96, 3),
            ],
            0,
        ),
    ];
    Plan {
        name,
        branches,
        pooled: Some((Pool::Mean, pooled)),
    }
}

/// The blocks at a stride of 16.
fn middle(name: &'static str, inner: usize) -> Plan {
    let branches = vec![
        (vec![square("branch1x1", 192, 1)], 0),
        (
            vec![
                square("branch7x7_1", inner, 1),
                row("branch7x7_2", inner, 7),
                column("branch7x7_3", 192, 7),
            ],
            0,
        ),
        (
            vec![
                square("branch7x7dbl_1", inner, 1),
                column("branch7x7dbl_2", inner, 7),
                row("branch7x7dbl_3", inner, 7),
                column("branch7x7dbl_4", inner, 7),
                row("branch7x7dbl_5", 192, 7),
            ],
            0,
        ),
    ];
    Plan {
        name,
        branches,
        pooled: Some((Pool::Mean, 192)),
    }
}

/// The blocks at a stride of 32.
fn coarse(name: &'static str, pool: Pool) -> Plan {
    let branches = vec![
        (vec![square("branch1x1", 320, 1)], 0),
        (
            vec![
                square("branch3x3_1", 384, 1),
                row("branch3x3_2a", 384, 3),
                column("branch3x3_2b", 384, 3),
            ],
            2,
        ),
        (
            vec![
                square("branch3x3dbl_1", 448, 1),
                square("branch3x3dbl_2", 384, 3),
                row("branch3x3dbl_3a", 384, 3),
                column("branch3x3dbl_3b", 384, 3),
            ],
            2,
        ),
    ];
    Plan {
        name,
        branches,
        pooled: Some((pool, 192)),
    }
}

/// A block that halves the picture.
fn halving(name: &'static str, branches: Vec<Vec<Spec>>) -> Plan {
    Plan {
        name,
        branches: branches.into_iter().map(|branch| (branch, 0)).collect(),
        pooled: None,
    }
}

/// All blocks in their order.
pub fn plans() -> Vec<Plan> {
    vec![
        fine("Mixed_5b", 32),
        fine("Mixed_5c", 64),
        fine("Mixed_5d", 64),
        halving(
            "Mixed_6a",
            vec![
                vec![square("branch3x3", 384, 3)],
                vec![
                    square("branch3x3dbl_1", 64, 1),
                    square("branch3x3dbl_2", 96, 3),
                    square("branch3x3dbl_3", 96, 3),
                ],
            ],
        ),
        middle("Mixed_6b", 128),
        middle("Mixed_6c", 160),
        middle("Mixed_6d", 160),
        middle("Mixed_6e", 192),
        halving(
            "Mixed_7a",
            vec![
                vec![square("branch3x3_1", 192, 1), square("branch3x3_2", 320, 3)],
                vec![
                    square("branch7x7x3_1", 192, 1),
                    row("branch7x7x3_2", 192, 7),
                    column("branch7x7x3_3", 192, 7),
                    square("branch7x7x3_4", 192, 3),
                ],
            ],
        ),
        coarse("Mixed_7b", Pool::Mean),
        coarse("Mixed_7c", Pool::Largest),
    ]
}
