//! PSE of depth: the probability of superiority of two objects' depths (Why Settle for Mid, arXiv 2506.23418).

use super::depth::DepthMap;
use super::pse::{figures, worst};
use super::superiority::Superiority;
use super::{Case, Options, Outcome, Report, Rule, RuleError};
use crate::Mask;
use prepose_scene::{Relation, StatedRelation};

/// The number of depths that are told apart.
pub const BINS: usize = 128;
/// Grounding DINO's threshold in the authors' script.
const MIN_SCORE: f64 = 0.3;
const KNOWN: &[Relation] = &[Relation::InFrontOf, Relation::Behind];

/// PSE of relations in depth.
#[derive(Clone, Copy, Debug)]
pub struct PseDepth;

/// How many pixels of each mask have each of [`BINS`] depths, the farthest first.
///
/// The depths lie evenly between the least and the largest that the two objects have; pixels of depth 0 are left out, as
/// in the original, which multiplies the map by the mask. None if neither object has a depth. All three have one size.
///
/// `published`: pixels at the very least depth fall out of the first bin, which does not include its lower edge.
pub fn quantized(depth: &DepthMap, masks: [&Mask; 2], published: bool) -> Option<[Vec<f64>; 2]> {
    let depths = masks.map(|mask| {
        let pairs = depth.rows().flatten().zip(mask.pixels());
        let inside = pairs.filter(|(value, covered)| *covered && **value > 0.0);
        inside.map(|(value, _)| *value).collect::<Vec<f64>>()
    });
    let all = || depths.iter().flatten().copied();
    let (least, most) = (all().reduce(f64::min)?, all().reduce(f64::max)?);
    let step = (most - least) / BINS as f64;
    // The last edge is the largest depth itself, free of rounding.
    let edges: Vec<f64> = (0..BINS)
        .map(|i| i as f64 * step + least)
        .chain([most])
        .collect();
    Some(depths.map(|depths| {
        let mut counts = vec![0.0; BINS];
        for value in depths {
            // A bin holds its upper edge and not its lower one.
            let bin = edges.partition_point(|edge| *edge < value).checked_sub(1);
            if let Some(bin) = bin.or((!published).then_some(0)) {
                counts[bin] += 1.0;
            }
        }
        counts
    }))
}

/// How probable it is that the first object is nearer (right) or farther (wrong) than the second. None if one of them has
/// no pixel with a depth.
pub fn nearer(depth: &DepthMap, masks: [&Mask; 2], published: bool) -> Option<Superiority> {
    let [first, second] = quantized(depth, masks, published)?;
    Superiority::of_order(&second, &first)
}

/// The PSE of one relation in depth: of each object its best detection, by its mask or its box.
///
/// # Errors
/// A relation that is not of depth, two objects of one name, no depth map.
pub fn of_relation(
    case: &Case,
    stated: &StatedRelation,
    options: &Options,
) -> Result<Outcome, RuleError> {
    let (subject, object) = case.names(stated, PseDepth.name(), KNOWN)?;
    if subject.eq_ignore_ascii_case(object) {
        return Err(RuleError::SameName(subject.to_owned()));
    }
    let depth = case
        .depth
        .as_ref()
        .ok_or(RuleError::NoDepth(PseDepth.name()))?;
    let mask = |name| {
        let found = case.found_with(name, options, MIN_SCORE);
        // The best detection alone, unlike in the plane.
        case.cover(&found[..found.len().min(1)])
    };
    let masks = [(subject, mask(subject)?), (object, mask(object)?)];
    let [(_, Some(first)), (_, Some(second))] = &masks else {
        let missing = masks.iter().filter(|(_, mask)| mask.is_none());
        // The original's script passes over such pictures.
        let score = (!options.published).then_some(0.0);
        return Ok(Outcome::missing(score, missing.map(|(name, _)| *name)));
    };
    let masks = [first, second];
    let picture = (masks[0].width(), masks[0].height());
    if depth.size() != picture {
        let depth = depth.size();
        return Err(RuleError::DepthSize { depth, picture });
    }
    let Some(nearer) = nearer(depth, masks, options.published) else {
        return Ok(Outcome::new(0.0, "an object has no pixel with a depth"));
    };
    let result = match stated.relation {
        Relation::Behind => Superiority {
            right: nearer.wrong,
            wrong: nearer.right,
        },
        _ => nearer,
    };
    let note = format!("right {:.4}, wrong {:.4}", result.right, result.wrong);
    Ok(Outcome::new(result.pse(), note))
}

/// The PSE of a picture's relations in depth, in 0..=1: that of the worst. A missing object makes it 0.
///
/// # Errors
/// There is no relation, no depth map, or a relation cannot be scored.
pub fn of_case(case: &Case, options: &Options) -> Result<Outcome, RuleError> {
    worst(case, |stated| of_relation(case, stated, options))
}

impl Rule for PseDepth {
    fn name(&self) -> &'static str {
        "pse-3d"
    }

    fn about(&self) -> &'static str {
        "probability of superiority of depths, for in front of and behind; needs a depth map"
    }

    fn score(&self, cases: &mut dyn Iterator<Item = Case>, options: &Options) -> Report {
        let outcomes: Vec<_> = cases.map(|case| of_case(&case, options)).collect();
        Report {
            figures: figures(&outcomes),
            outcomes,
        }
    }
}
