//! Every statistic that one network's features give, under the names that papers print.

use prepose_statistics::bootstrap::{Bootstrap, Estimate};

use crate::diversity::vendi;
use crate::frechet::frechet;
use crate::inception::score;
use crate::kernel::{Subsets, cmmd, kid, median_distance, rke};
use crate::neighbours::manifold;
use crate::{Features, Measured, Moments, QualityError};

/// Parts of the pictures that the Inception score is the mean over.
const SPLITS: usize = 10;
/// Fewer pictures than this, and intervals mean little.
const FEW: usize = 50;
/// As many pictures as the Inception score is published of, at least.
const MANY: usize = 5000;

/// What kind of network saw the pictures; it decides what statistics are called, and which there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Inception-v3 of FID: FID, KID and the Inception score have its name in theirs.
    ByInception,
    /// The picture encoder of a CLIP, which CMMD is of.
    ByClip,
    /// Any other.
    ByOther,
}

/// A set of pictures as a network sees them.
#[derive(Clone, Copy, Debug)]
pub struct Set<'a> {
    /// A row for each picture.
    pub features: &'a Features,
    /// Classes before the softmax, where the network has some.
    pub logits: Option<&'a Features>,
    /// For each picture the group it belongs to, such as its prompt: what is drawn again for intervals.
    pub groups: &'a [usize],
}

/// What pictures are compared with.
#[derive(Clone, Copy, Debug)]
pub enum Reference<'a> {
    /// Other pictures.
    Pictures(&'a Features),
    /// Only what is left of them in a file: enough for the Fréchet distance.
    Moments(&'a Moments),
}

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Which neighbour the balls of precision, recall, density and coverage reach to.
    pub neighbours: usize,
    /// The width of RKE's kernel; none is the median distance of the pictures.
    pub sigma: Option<f64>,
    /// How KID draws.
    pub subsets: Subsets,
    /// How intervals draw.
    pub bootstrap: Bootstrap,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            neighbours: 5,
            sigma: None,
            subsets: Subsets::default(),
            bootstrap: Bootstrap::default(),
        }
    }
}

/// A statistic with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// As papers call it.
    pub name: &'static str,
    /// The value and the 95 % interval if other pictures had been made.
    pub estimate: Estimate,
    /// The deviation that is published with it: over KID's subsets or the Inception score's parts.
    pub deviation: Option<f64>,
    /// The setting that it depends on, in words.
    pub setting: Option<String>,
}

/// All statistics of a set, and what makes some of them mean little.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// In the order in which they are shown.
    pub figures: Vec<Figure>,
    /// In words.
    pub warnings: Vec<String>,
}

impl Figures {
    fn add(&mut self, name: &'static str, measured: &Measured, of: &Drawn) -> &mut Figure {
        let at = self.figures.len();
        self.figures.push(Figure {
            name,
            estimate: measured.estimate(of.groups, of.bootstrap),
            deviation: None,
            setting: None,
        });
        &mut self.figures[at]
    }
}

/// What is drawn again.
struct Drawn<'a> {
    groups: &'a [usize],
    bootstrap: &'a Bootstrap,
}

/// Every statistic of `set`; those that compare need a reference.
///
/// # Errors
/// Fewer than two pictures, a reference that another network saw, or settings out of range. What only some statistics
/// lack is a warning, and they are left out.
pub fn figures(
    seen: Seen,
    set: &Set,
    reference: Option<Reference>,
    settings: &Settings,
) -> Result<Figures, QualityError> {
    let features = set.features;
    features.at_least("picture quality", 2)?;
    let drawn = Drawn {
        groups: set.groups,
        bootstrap: &settings.bootstrap,
    };
    let mut all = Figures::default();
    match reference {
        Some(Reference::Moments(moments)) => {
            distance(&mut all, seen, features, moments, &drawn)?;
        }
        Some(Reference::Pictures(others)) => {
            let moments = Moments::of(others)?;
            distance(&mut all, seen, features, &moments, &drawn)?;
            if others.rows() <= others.columns() {
                all.warnings.push(format!(
                    "the reference has {} pictures and {} features: its covariance is incomplete, and distances from it are \
                     too large",
                    others.rows(),
                    others.columns()
                ));
            }
            compared(&mut all, seen, features, others, settings, &drawn)?;
        }
        None => {}
    }
    if let Some(logits) = set.logits {
        let splits = SPLITS.min(features.rows());
        let found = score(logits, splits)?;
        let figure = all.add("IS", &found.score, &drawn);
        figure.deviation = Some(found.deviation);
        figure.setting = Some(format!("{splits} splits"));
        if features.rows() < MANY {
            all.warnings.push(format!(
                "IS of {} pictures is lower than that of more: 50,000 are usual",
                features.rows()
            ));
        }
    }
    all.add("Vendi", &vendi(features)?, &drawn);
    let sigma = settings.sigma.unwrap_or_else(|| median_distance(features));
    if sigma > 0.0 {
        let figure = all.add("RKE", &rke(features, sigma)?, &drawn);
        figure.setting = Some(format!("width {sigma:.4}"));
    } else if settings.sigma.is_some() {
        rke(features, sigma)?;
    } else {
        let equal = "most pictures are equal, so that RKE's kernel has no width; give one".into();
        all.warnings.push(equal);
    }
    if features.rows() < FEW {
        all.warnings.push(format!(
            "{} pictures are few: values are uncertain beyond their intervals",
            features.rows()
        ));
    }
    Ok(all)
}

fn distance(
    all: &mut Figures,
    seen: Seen,
    features: &Features,
    reference: &Moments,
    drawn: &Drawn,
) -> Result<(), QualityError> {
    let name = match seen {
        Seen::ByInception => "FID",
        Seen::ByClip | Seen::ByOther => "FD",
    };
    all.add(name, &frechet(features, reference)?, drawn);
    let (rows, columns) = (features.rows(), features.columns());
    if rows <= columns {
        all.warnings.push(format!(
            "{name} of {rows} pictures is meaningless but for comparing sets of {rows}: {columns} features need more than \
             {columns} pictures, and 10,000 are usual"
        ));
    }
    Ok(())
}

/// What needs the reference's pictures themselves.
fn compared(
    all: &mut Figures,
    seen: Seen,
    features: &Features,
    others: &Features,
    settings: &Settings,
    drawn: &Drawn,
) -> Result<(), QualityError> {
    match seen {
        Seen::ByInception => {
            let found = kid(features, others, &settings.subsets)?;
            let thousandfold = 1000.0;
            let distance = &found.distance;
            let scaled = distance.around(thousandfold * distance.value, thousandfold);
            let figure = all.add("KID x 1000", &scaled, drawn);
            figure.deviation = Some(thousandfold * found.deviation);
            let size = settings
                .subsets
                .size
                .min(features.rows().max(others.rows()));
            figure.setting = Some(format!("subsets of {size}"));
        }
        Seen::ByClip => {
            all.add("CMMD", &cmmd(features, others)?, drawn);
        }
        Seen::ByOther => {}
    }
    let least = settings.neighbours + 1;
    if settings.neighbours > 0 && features.rows().min(others.rows()) < least {
        all.warnings.push(format!(
            "precision, recall, density and coverage are left out: with {} neighbours both sets need {least} pictures",
            settings.neighbours
        ));
        return Ok(());
    }
    let found = manifold(features, others, settings.neighbours)?;
    let alone: Vec<usize> = (0..others.rows()).collect();
    let of_reference = Drawn {
        groups: &alone,
        bootstrap: drawn.bootstrap,
    };
    for (name, measured, of) in [
        ("precision", &found.precision, drawn),
        ("recall", &found.recall, &of_reference),
        ("density", &found.density, drawn),
        ("coverage", &found.coverage, &of_reference),
    ] {
        let figure = all.add(name, measured, of);
        figure.setting = Some(format!("{} neighbours", settings.neighbours));
    }
    if features.rows() != others.rows() {
        all.warnings.push(format!(
            "precision, recall, density and coverage depend on the numbers of pictures, {} and {} here: compare only \
             figures of the same numbers",
            features.rows(),
            others.rows()
        ));
    }
    Ok(())
}
