//! What a plot is made of, in pixels from the upper left corner, without colours: those depend on the reader's theme.

/// What something is drawn with; each has a colour for light and one for dark grounds, apart also for readers who are
/// colour-blind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// What is behind everything.
    Ground,
    /// Text.
    Text,
    /// Text that matters less.
    Soft,
    /// Lines of a grid.
    Grid,
    /// The lines of the axes.
    Axis,
    /// One of several things that are compared, counted from 0; after [`SERIES`] they begin again.
    Series(usize),
    /// What passes.
    Pass,
    /// What fails.
    Fail,
    /// What cannot be said.
    Undecided,
}

/// How many inks for things that are compared there are.
pub const SERIES: usize = 8;

impl Ink {
    /// Every ink.
    pub fn all() -> impl Iterator<Item = Self> {
        let fixed = [
            Self::Ground,
            Self::Text,
            Self::Soft,
            Self::Grid,
            Self::Axis,
            Self::Pass,
            Self::Fail,
            Self::Undecided,
        ];
        fixed.into_iter().chain((0..SERIES).map(Self::Series))
    }

    /// Red, green and blue on a light ground.
    pub fn light(self) -> [u8; 3] {
        match self {
            Self::Ground => [255, 255, 255],
            Self::Text => [28, 27, 26],
            Self::Soft => [95, 91, 85],
            Self::Grid => [229, 226, 219],
            Self::Axis => [138, 133, 124],
            Self::Pass => [10, 122, 85],
            Self::Fail => [194, 65, 12],
            Self::Undecided => [125, 121, 113],
            Self::Series(i) => LIGHT[i % SERIES],
        }
    }

    /// Red, green and blue on a dark ground.
    pub fn dark(self) -> [u8; 3] {
        match self {
            Self::Ground => [22, 23, 24],
            Self::Text => [238, 236, 232],
            Self::Soft => [171, 166, 157],
            Self::Grid => [52, 55, 58],
            Self::Axis => [119, 115, 107],
            Self::Pass => [79, 209, 160],
            Self::Fail => [255, 157, 92],
            Self::Undecided => [160, 156, 148],
            Self::Series(i) => DARK[i % SERIES],
        }
    }

    /// The end of the names of its classes in SVG.
    pub(super) fn class(self) -> String {
        match self {
            Self::Ground => "ground".into(),
            Self::Text => "text".into(),
            Self::Soft => "soft".into(),
            Self::Grid => "grid".into(),
            Self::Axis => "axis".into(),
            Self::Pass => "pass".into(),
            Self::Fail => "fail".into(),
            Self::Undecided => "undecided".into(),
            Self::Series(i) => (i % SERIES).to_string(),
        }
    }
}

// After Okabe and Ito's palette (https://jfly.uni-koeln.de/color/), darkened for a contrast of 3 and more on white.
const LIGHT: [[u8; 3]; SERIES] = [
    [11, 98, 176],
    [194, 65, 12],
    [10, 122, 85],
    [154, 59, 143],
    [138, 100, 0],
    [30, 132, 163],
    [85, 82, 77],
    [176, 35, 74],
];
const DARK: [[u8; 3]; SERIES] = [
    [108, 180, 245],
    [255, 157, 92],
    [79, 209, 160],
    [231, 154, 216],
    [232, 193, 74],
    [127, 214, 234],
    [201, 196, 186],
    [255, 143, 168],
];

/// Which part of a text stands at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The left end.
    Start,
    /// The middle.
    Middle,
    /// The right end.
    End,
}

/// How dots of a series differ, besides their colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// ●
    Circle,
    /// ■
    Square,
    /// ▲
    Triangle,
    /// ◆
    Diamond,
}

impl Shape {
    /// Of the series with this number.
    pub fn of(series: usize) -> Self {
        [Self::Circle, Self::Square, Self::Triangle, Self::Diamond][series % 4]
    }

    /// The corners around `at`, for all but the circle.
    pub(super) fn corners(self, (x, y): (f64, f64), radius: f64) -> Vec<(f64, f64)> {
        let r = radius;
        match self {
            Self::Circle => Vec::new(),
            Self::Square => {
                let s = 0.88 * r;
                vec![
                    (x - s, y - s),
                    (x + s, y - s),
                    (x + s, y + s),
                    (x - s, y + s),
                ]
            }
            Self::Triangle => vec![
                (x, y - 1.2 * r),
                (x + 1.1 * r, y + 0.8 * r),
                (x - 1.1 * r, y + 0.8 * r),
            ],
            Self::Diamond => vec![
                (x, y - 1.3 * r),
                (x + 1.3 * r, y),
                (x, y + 1.3 * r),
                (x - 1.3 * r, y),
            ],
        }
    }
}

/// Dashes of a line, besides its colour: the lengths of strokes and gaps.
pub fn dashes(series: usize) -> &'static [f32] {
    match series / SERIES {
        0 => &[],
        1 => &[7.0, 4.0],
        _ => &[2.0, 3.0],
    }
}

/// One thing that is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// What it is.
    pub what: What,
    /// With what.
    pub ink: Ink,
    /// What is said of it where a reader points at it.
    pub tip: Option<String>,
}

/// What can be drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A line through points.
    Line {
        /// At least two.
        points: Vec<(f64, f64)>,
        /// In pixels.
        width: f64,
        /// Strokes and gaps in pixels; none for a whole line.
        dashes: &'static [f32],
    },
    /// A filled polygon.
    Area {
        /// Its corners.
        points: Vec<(f64, f64)>,
        /// 0 for nothing, 1 for all of the ink.
        opacity: f64,
    },
    /// A dot.
    Mark {
        /// Its middle.
        at: (f64, f64),
        /// Its shape.
        shape: Shape,
        /// In pixels.
        radius: f64,
    },
    /// Text in one line.
    Text {
        /// Its place on the line it stands on.
        at: (f64, f64),
        /// What it says.
        text: String,
        /// In pixels.
        size: f64,
        /// What of it stands at its place.
        anchor: Anchor,
        /// Written from the bottom to the top.
        turned: bool,
    },
}

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// In pixels.
    pub width: f64,
    /// In pixels.
    pub height: f64,
    /// What it shows, for those who do not see it.
    pub title: String,
    /// Later ones are drawn over earlier ones.
    pub items: Vec<Item>,
}

impl Drawing {
    /// An empty one.
    pub fn new(width: f64, height: f64, title: &str) -> Self {
        Self {
            width,
            height,
            title: title.into(),
            items: Vec::new(),
        }
    }

    fn put(&mut self, what: What, ink: Ink) {
        self.items.push(Item {
            what,
            ink,
            tip: None,
        });
    }

    /// Says something of what was drawn last.
    pub fn tip(&mut self, tip: impl Into<String>) {
        if let Some(item) = self.items.last_mut() {
            item.tip = Some(tip.into());
        }
    }

    /// A line through points; nothing for less than two.
    pub fn line(&mut self, points: Vec<(f64, f64)>, width: f64, dashes: &'static [f32], ink: Ink) {
        if points.len() > 1 {
            self.put(
                What::Line {
                    points,
                    width,
                    dashes,
                },
                ink,
            );
        }
    }

    /// A thin line between two points.
    pub fn rule(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink) {
        self.line(vec![from, to], 1.0, &[], ink);
    }

    /// A filled rectangle.
    pub fn rect(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        opacity: f64,
        ink: Ink,
    ) {
        let points = vec![
            (x, y),
            (x + width, y),
            (x + width, y + height),
            (x, y + height),
        ];
        self.put(What::Area { points, opacity }, ink);
    }

    /// A filled polygon.
    pub fn area(&mut self, points: Vec<(f64, f64)>, opacity: f64, ink: Ink) {
        self.put(What::Area { points, opacity }, ink);
    }

    /// A dot.
    pub fn mark(&mut self, at: (f64, f64), shape: Shape, radius: f64, ink: Ink) {
        self.put(What::Mark { at, shape, radius }, ink);
    }

    /// Text from left to right.
    pub fn text(&mut self, at: (f64, f64), text: &str, size: f64, anchor: Anchor, ink: Ink) {
        self.put(
            What::Text {
                at,
                text: text.into(),
                size,
                anchor,
                turned: false,
            },
            ink,
        );
    }

    /// Text from the bottom to the top.
    pub fn turned_text(&mut self, at: (f64, f64), text: &str, size: f64, ink: Ink) {
        self.put(
            What::Text {
                at,
                text: text.into(),
                size,
                anchor: Anchor::Middle,
                turned: true,
            },
            ink,
        );
    }
}
