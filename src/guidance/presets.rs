//! The published constants of each method.

use super::attend_excite::ExciteConstants;
use super::boxdiff::BoxDiffConstants;
use super::boxes::Rounding;
use super::layout::LayoutConstants;
use super::maps::LayerRule;
use super::pos::PosConstants;
use super::steps::{Refinement, StepSize};
use super::{Combination, Loss, Method, Network, PosLoss, Preset, Settings, TokenRange};
use crate::prompt::scene::TokenPolicy;

/// The constants of a method's preset. Sources: `docs/guidance`.
pub(super) fn published(method: Method, preset: Preset, network: Network) -> Settings {
    let reference = preset != Preset::Default;
    let tokens = match reference {
        true => TokenPolicy::First,
        false => TokenPolicy::Mean,
    };
    let (loss, to_step, step_size, refinement) = match method {
        Method::Pos => {
            let xl = preset == Preset::SdxlReference;
            let constants = PosConstants {
                loss: PosLoss::WrongOrder,
                combine: match reference {
                    true => Combination::Sequence,
                    false => Combination::Sum,
                },
                // SDXL's code computes the smoothed maps and then passes on the others.
                smoothing: !xl,
                distance: 5.0 / 16.0,
            };
            let (steps, step_size) = match (preset, network) {
                // A multiplier of 1000 on top of the factor 20, in σ's space.
                (Preset::SdxlReference, _) | (Preset::Default, Network::Sdxl) => {
                    (10, StepSize::decaying(20.0 * 1000.0).in_sigma_space())
                }
                (Preset::Default, Network::Toybox) => (10, StepSize::decaying(20.0)),
                _ => (25, StepSize::decaying(20.0)),
            };
            (Loss::Pos(constants), steps, step_size, Refinement::None)
        }
        Method::BoxDiff => {
            let constants = BoxDiffConstants {
                range: match preset {
                    Preset::Default | Preset::Diffusers => TokenRange::Text,
                    _ => TokenRange::AllButEnds,
                },
                smoothing: true,
                rounding: match reference {
                    true => Rounding::Nearest,
                    false => Rounding::AtLeastOne,
                },
                share: 0.2,
                corner: 1,
                at_least_one: !reference,
            };
            let refinement = match preset {
                Preset::Sd14Reference | Preset::SdxlReference => Refinement::published(true),
                _ => Refinement::None,
            };
            let step_size = StepSize::decaying(20.0);
            (Loss::BoxDiff(constants), 25, step_size, refinement)
        }
        Method::AttendAndExcite => {
            let constants = ExciteConstants {
                range: match reference {
                    true => TokenRange::AllButEnds,
                    false => TokenRange::Text,
                },
                smoothing: true,
            };
            let refinement = match reference {
                true => Refinement::published(true),
                false => Refinement::None,
            };
            let step_size = StepSize::decaying(20.0);
            (Loss::AttendAndExcite(constants), 25, step_size, refinement)
        }
        Method::Layout => {
            let constants = LayoutConstants {
                rounding: match reference {
                    true => Rounding::Down,
                    false => Rounding::AtLeastOne,
                },
            };
            let refinement = Refinement::Until {
                threshold: 0.2,
                updates: 5,
                quirk: reference,
            };
            (
                Loss::Layout(constants),
                10,
                StepSize::noise_level(30.0),
                refinement,
            )
        }
    };
    Settings {
        loss,
        layers: match method {
            Method::Layout => LayerRule::MidAndFirstUp,
            _ => LayerRule::Size {
                side: None,
                down_only: false,
            },
        },
        from_step: 0,
        to_step,
        steps_asked: false,
        step_size,
        refinement,
        tokens,
        one_pass: false,
    }
}
