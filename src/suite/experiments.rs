//! The runs that the papers' experiments need: the methods that they compare, and a run's pictures as
//! [`report::experiments`](crate::report::experiments) takes them.

use std::collections::HashMap;

use prepose_report::experiments::{self, Compared, Pictures};

use super::folder::{FolderError, RunFolder};
use super::method::{Begin, Method, Moment};
use crate::guidance::GuidanceConfig;
use crate::guidance::pos::Pos;
use crate::prompt::neutral::Opening;
use crate::search::{RewardKind, SearchConfig};

/// The pictures that a run has made so far by the methods that were asked for, and that a checker looked at.
///
/// # Errors
/// The run's files cannot be read.
pub fn pictures(folder: &RunFolder) -> Result<Pictures, FolderError> {
    let plan = folder.plan();
    let index_of: HashMap<&str, usize> = (plan.prompts.iter().enumerate())
        .map(|(index, prompt)| (prompt.prompt_id.as_str(), index))
        .collect();
    // Pictures from elsewhere have no steps that are known.
    let steps = (plan.config.sampling.as_ref()).map_or(0, |sampling| sampling.steps);
    let mut methods = Vec::new();
    for (index, method) in plan.config.methods.iter().enumerate() {
        // The run may have methods of another experiment.
        if folder.asked_for(index) == 0 {
            continue;
        }
        let mut seen = Vec::new();
        folder.samples(index, |sample| {
            let prompt = index_of.get(sample.scores.prompt_id.as_str());
            if let Some(prompt) = prompt
                && sample.scores.found.is_some()
            {
                seen.push((*prompt, sample.scores));
            }
            Ok(())
        })?;
        methods.push((compared(method, steps), seen));
    }
    Ok(Pictures {
        steps,
        prompts: plan.prompts.clone(),
        methods,
    })
}

fn compared(method: &Method, steps: usize) -> Compared {
    Compared {
        name: method.name.clone(),
        guided: method.guide.is_some(),
        searched: method.search.is_some(),
        opening: method.begin.map(|begin| {
            let moment = experiments::Moment {
                text: begin.until.to_string(),
                share: begin.until.share(steps),
            };
            (begin.with, moment)
        }),
    }
}

/// The methods of a prompt switch (`ots switch`): the prompt alone, and for each moment, each of these openings before
/// it.
pub fn switch_methods(openings: &[Opening], moments: &[Moment]) -> Vec<Method> {
    let mut methods = vec![Method::prompt_only()];
    for &with in openings {
        let name = match with {
            Opening::Swapped => "swapped-order",
            Opening::Neutral => "delayed-order",
        };
        for &until in moments {
            methods.push(Method {
                name: format!("{name}-{until}"),
                begin: Some(Begin { with, until }),
                ..Method::prompt_only()
            });
        }
    }
    methods
}

/// The methods of a scaling curve (`psg scaling`): the prompt alone and PSG, each alone and with the best of each
/// number of noises by `reward`.
pub fn scaling_methods(numbers: &[usize], reward: RewardKind) -> Vec<Method> {
    let suffix = match reward {
        RewardKind::Attention => "",
        RewardKind::Checker => "-checker",
        RewardKind::Pse => "-pse",
        RewardKind::Judge => "-judge",
        RewardKind::Relations => "-relations",
    };
    let mut methods = Vec::new();
    for guided in [false, true] {
        let guide = guided.then(|| GuidanceConfig::new(&Pos));
        let plain = if guided { "psg" } else { "prompt-only" };
        methods.push(Method {
            name: plain.into(),
            guide: guide.clone(),
            ..Method::prompt_only()
        });
        for &best_of in numbers.iter().filter(|number| **number > 1) {
            let prefix = if guided { "psg+" } else { "" };
            methods.push(Method {
                name: format!("{prefix}best-of-{best_of}{suffix}"),
                guide: guide.clone(),
                search: Some(SearchConfig {
                    best_of,
                    reward,
                    pruning: None,
                }),
                ..Method::prompt_only()
            });
        }
    }
    methods
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_compares_both_openings_at_each_step() {
        let moments = ["1", "0.2", "sigma5.5"].map(|text| text.parse().unwrap());
        let methods = switch_methods(&[Opening::Swapped, Opening::Neutral], &moments);
        let names: Vec<&str> = methods.iter().map(|method| method.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "prompt-only",
                "swapped-order-1",
                "swapped-order-0.2",
                "swapped-order-sigma5.5",
                "delayed-order-1",
                "delayed-order-0.2",
                "delayed-order-sigma5.5"
            ]
        );
        for method in &methods[1..] {
            assert_eq!(method.name.parse::<Method>().unwrap(), *method);
            let begin = method.begin.unwrap();
            let same = compared(method, 20);
            let (with, moment) = same.opening.clone().unwrap();
            assert_eq!((with, moment.text), (begin.with, begin.until.to_string()));
            assert!(!same.guided && !same.searched);
        }
        assert_eq!(methods[0].name, Compared::PROMPT_ONLY);
    }

    #[test]
    fn a_scaling_curve_has_a_method_for_each_number_with_and_without_guidance() {
        let methods = scaling_methods(&[1, 2, 4], RewardKind::Pse);
        let names: Vec<&str> = methods.iter().map(|method| method.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "prompt-only",
                "best-of-2-pse",
                "best-of-4-pse",
                "psg",
                "psg+best-of-2-pse",
                "psg+best-of-4-pse"
            ]
        );
        Method::check_names(&methods).unwrap();
        let guided: Vec<bool> = methods.iter().map(|m| compared(m, 20).guided).collect();
        assert_eq!(guided, [false, false, false, true, true, true]);
        let searched: Vec<bool> = methods.iter().map(|m| compared(m, 20).searched).collect();
        assert_eq!(searched, [false, true, true, false, true, true]);
    }
}
