//! UNet calls that leave something out, against their authors' packages in diffusers (`fixtures/savings`).

use burn::tensor::Tensor;
use prepose::attention_maps::{AttentionMaps, MapSelection};
use prepose::guidance::GuidanceConfig;
use prepose::guidance::maps::LayerRule;
use prepose::guidance::pos::Pos;
use prepose::request::{DeepCache, Dtype, Gate, ModelRequest, PromptSwitch, Request, Savings};
use prepose::sampling::StepRange;
use prepose::sampling::denoise::UnetRows;
use serde_json::Value;

use super::{Case, assert_close};
use crate::support::fixture;

fn open() -> (Case, Value) {
    open_on("sd1-tiny")
}

fn open_on(checkpoint: &str) -> (Case, Value) {
    let model = ModelRequest::new(fixture(checkpoint).to_string_lossy(), Dtype::F32);
    let text = std::fs::read_to_string(fixture("savings/case.json")).unwrap();
    let mut case = Case::of(&fixture("savings"), model);
    case.request.scheduler = Some("ddim".into());
    (case, serde_json::from_str(&text).unwrap())
}

fn deep(every: usize, branch: usize) -> Savings {
    Savings {
        deep_cache: Some(DeepCache { every, branch }),
        ..Savings::default()
    }
}

fn gate(step: usize) -> Savings {
    Savings {
        tgate: Some(Gate::Step(step)),
        ..Savings::default()
    }
}

fn merging(ratio: f64) -> Savings {
    Savings {
        token_merging: Some(ratio),
        ..Savings::default()
    }
}

fn everything() -> Savings {
    deep(2, 1).or(gate(4)).or(merging(0.5))
}

/// Guidance in the first two steps.
fn guided() -> GuidanceConfig {
    GuidanceConfig {
        steps: Some(2),
        ..GuidanceConfig::new(&Pos)
    }
}

fn values(latents: Tensor<4>) -> Vec<f32> {
    latents.to_data().iter().collect()
}

impl Case {
    fn saving(&self, savings: Savings) -> Request {
        Request {
            savings,
            ..self.request.clone()
        }
    }

    fn made(&self, request: &Request) -> Vec<f32> {
        let one = std::slice::from_ref(request);
        values(self.engine.latents(one, &mut []).unwrap())
    }

    fn rows(&self, request: &Request) -> [usize; 2] {
        let one = std::slice::from_ref(request);
        let mut session = self.engine.begin(one, &mut []).unwrap();
        session.advance(usize::MAX, &mut []).unwrap();
        let UnetRows { whole, shallow } = session.unet_rows();
        [whole, shallow]
    }
}

#[test]
fn savings_are_their_authors() {
    let ((sd1, info), (sdxl, _)) = (open(), open_on("sdxl-tiny"));
    let number = |value: &Value| value.as_u64().unwrap() as usize;
    for (name, given) in info["cases"].as_object().unwrap() {
        let case = if name.starts_with("sdxl") {
            &sdxl
        } else {
            &sd1
        };
        let pair = |key: &str| {
            given[key]
                .as_array()
                .map(|pair| [number(&pair[0]), number(&pair[1])])
        };
        let savings = Savings {
            deep_cache: pair("deep_cache").map(|[every, branch]| DeepCache { every, branch }),
            tgate: given["tgate"]
                .as_u64()
                .map(|step| Gate::Step(step as usize)),
            token_merging: given["token_merging"].as_f64(),
        };
        let mut request = Request {
            scheduler: given["scheduler"].as_str().map(Into::into),
            ..case.saving(savings)
        };
        if let Some([height, width]) = pair("size") {
            (request.height, request.width) = (height, width);
        }
        case.engine.blueprint().check(&mut request).unwrap();
        let made = case.engine.latents(&[request], &mut []).unwrap();
        assert_close(name, &made, &case.expected(&format!("{name}/latents")));
    }
}

#[test]
fn a_picture_with_savings_is_the_same_alone_and_in_a_batch() {
    let (case, _) = open();
    for guide in [None, Some(guided())] {
        let request = Request {
            guide,
            ..case.saving(everything())
        };
        let alone = case.made(&request);
        let mut other = request.clone();
        other.prompt = "a cat to the right of a dog".into();
        other.seed = 99;
        let pair = [other.clone(), request.clone()];
        assert_eq!(case.engine.batch_size(&pair, 8).unwrap(), 2);
        let both = case.engine.latents(&pair, &mut []).unwrap();
        assert_eq!(values(both.narrow(0, 1, 1)), alone);
        // The batch shrinks before and after the gate, in the middle of what is kept.
        for at in [3, 5] {
            let three = [other.clone(), request.clone(), other.clone()];
            let mut session = case.engine.begin(&three, &mut []).unwrap();
            session.advance(at, &mut []).unwrap();
            session.retain(&[1], &mut []);
            session.advance(usize::MAX, &mut []).unwrap();
            assert_eq!(values(session.finish().unwrap()), alone, "after {at}");
        }
    }
    let others = [case.request.clone(), case.saving(deep(2, 0))];
    assert_eq!(case.engine.batch_size(&others, 8).unwrap(), 1);
}

#[test]
fn calls_are_saved_where_nothing_is_guided() {
    let (case, _) = open();
    assert_eq!(case.rows(&case.request), [16, 0]);
    // Steps 0, 3 and 6 of 8.
    assert_eq!(case.rows(&case.saving(deep(3, 0))), [6, 10]);
    assert_eq!(case.rows(&case.saving(gate(3))), [6 + 5, 0]);
    // Whole: 0, 2 (before the gate) and 3 (the first without a second row), 6.
    let both = deep(3, 0).or(gate(3));
    assert_eq!(case.rows(&case.saving(both)), [2 + 2 + 1 + 1, 2 + 3]);
    // Guided steps are whole: 0 and 1, then 4 and 7.
    let mut request = Request {
        guide: Some(guided()),
        ..case.saving(deep(3, 0))
    };
    assert_eq!(case.rows(&request), [8, 8]);
    // A recorded call leaves nothing, so that the one after it is whole: 0, 1, 2, 5.
    request.guide.as_mut().unwrap().one_pass = true;
    assert_eq!(case.rows(&request), [8, 8]);
    // So is a step with another prompt, and the first without classifier-free guidance: 0, 1, 4, 5.
    request.guide = None;
    request.switch = Some(PromptSwitch {
        to: "a bird".into(),
        at: 1,
    });
    request.guidance_steps = Some(StepRange {
        first: 0,
        last: Some(4),
    });
    assert_eq!(case.rows(&request), [2 + 2 + 2 + 1, 2 + 2 + 1 + 1]);
}

#[test]
fn maps_are_those_of_all_cells_in_steps_that_run_whole() {
    let (case, _) = open();
    let seen = |savings| {
        let mut maps = AttentionMaps::new(MapSelection {
            layers: LayerRule::Size {
                side: Some(8),
                down_only: false,
            },
            ..MapSelection::default()
        });
        let request = case.saving(savings);
        let made = case
            .engine
            .latents(std::slice::from_ref(&request), &mut [&mut maps]);
        // To look changes nothing that matters.
        let error = values(made.unwrap());
        let alone = case.made(&request);
        let largest = alone.iter().fold(0f32, |most, value| most.max(value.abs()));
        let pairs = error.iter().zip(&alone);
        assert!(pairs.map(|(a, b)| (a - b).abs()).fold(0f32, f32::max) < 1e-4 * largest);
        maps.into_steps()
    };
    let plain = seen(Savings::default());
    let steps = |maps: &[prepose::attention_maps::StepMaps]| -> Vec<usize> {
        maps.iter().map(|maps| maps.step).collect()
    };
    assert_eq!(steps(&plain), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(steps(&seen(deep(3, 0))), [0, 3, 6]);
    assert_eq!(steps(&seen(gate(3))), [0, 1, 2, 3, 4, 5, 6, 7]);
    for savings in [gate(3), merging(0.5)] {
        let maps = seen(savings);
        for (maps, plain) in maps.iter().zip(&plain) {
            assert_eq!(maps.groups[0].maps.dims(), plain.groups[0].maps.dims());
            let sums = maps.groups[0].maps.clone().sum_dim(3).to_data();
            assert!(sums.iter::<f32>().all(|sum| (sum - 1.0).abs() < 1e-5));
        }
    }
}

#[test]
fn one_gradient_serves_several_steps() {
    let (case, _) = open();
    let made = |change: &dyn Fn(&mut GuidanceConfig)| {
        let mut guide = GuidanceConfig {
            steps: Some(6),
            ..GuidanceConfig::new(&Pos)
        };
        change(&mut guide);
        let request = Request {
            guide: Some(guide),
            ..case.request.clone()
        };
        let mut session = case.engine.begin(&[request], &mut []).unwrap();
        session.advance(usize::MAX, &mut []).unwrap();
        let steps: Vec<usize> = session.losses().map(|(step, _)| *step).collect();
        (steps, values(session.finish().unwrap()))
    };
    let each = made(&|_| {});
    assert_eq!(each.0, [0, 1, 2, 3, 4, 5]);
    assert_eq!(made(&|guide| guide.every = Some(1)), each);
    let held = made(&|guide| guide.every = Some(2));
    assert_eq!(held.0, [0, 2, 4]);
    let continued = made(&|guide| (guide.every, guide.extrapolate) = (Some(2), true));
    assert_eq!(continued.0, [0, 2, 4]);
    let recorded = made(&|guide| (guide.every, guide.one_pass) = (Some(3), true));
    assert_eq!(recorded.0, [0, 3]);
    let rare = made(&|guide| guide.every = Some(9));
    assert_eq!(rare.0, [0]);
    let all = [&each.1, &held.1, &continued.1, &recorded.1, &rare.1];
    for (index, one) in all.iter().enumerate() {
        assert!(all[..index].iter().all(|other| other != one), "{index}");
    }
}

#[test]
fn guidance_in_one_pass_waits_for_the_final_prompt_alone() {
    let (case, _) = open();
    let guided_in = |change: &dyn Fn(&mut Request)| {
        let mut request = Request {
            guide: Some(GuidanceConfig {
                steps: Some(6),
                one_pass: true,
                ..GuidanceConfig::new(&Pos)
            }),
            ..case.request.clone()
        };
        change(&mut request);
        let mut session = case.engine.begin(&[request], &mut []).unwrap();
        session.advance(usize::MAX, &mut []).unwrap();
        let losses = session.losses();
        losses.map(|(step, _)| *step).collect::<Vec<_>>()
    };
    let negative = guided_in(&|request| request.negative_prompt = "[blurry:ugly:4]".into());
    assert_eq!(negative, [0, 1, 2, 3, 4, 5]);
    let prompt = guided_in(&|request| {
        request.switch = Some(PromptSwitch {
            to: std::mem::replace(&mut request.prompt, "two animals".into()),
            at: 4,
        });
    });
    assert_eq!(prompt, [4, 5]);
}

/// What the message says, and what is wrong.
type Wrong<'a> = (&'a str, &'a dyn Fn(&mut Request));

#[test]
fn what_cannot_be_combined_is_refused() {
    let (case, _) = open();
    let refused = |change: &dyn Fn(&mut Request)| {
        let mut request = case.request.clone();
        change(&mut request);
        let blueprint = case.engine.blueprint();
        blueprint.check(&mut request).unwrap_err().to_string()
    };
    let cases: [Wrong; 10] = [
        ("has 0 to 8", &|r| r.savings = deep(2, 9)),
        ("all 8 steps are guided", &|r| {
            r.savings = deep(2, 0);
            r.guide = Some(GuidanceConfig::new(&Pos));
        }),
        ("acts until step 1, but from step 1 on", &|r| {
            r.savings = gate(1);
            r.guide = Some(guided());
        }),
        ("gate at step 3 or later", &|r| {
            r.savings = gate(2);
            r.guide = Some(GuidanceConfig {
                one_pass: true,
                ..guided()
            });
        }),
        ("changes at step 4", &|r| {
            r.savings = gate(3);
            r.switch = Some(PromptSwitch {
                to: "a bird".into(),
                at: 4,
            });
        }),
        ("joined by AND", &|r| {
            r.savings = gate(3);
            r.prompt = "a cat AND a dog".into();
        }),
        ("ends classifier-free guidance at step 3", &|r| {
            r.savings = gate(3);
            r.guidance_steps = Some(StepRange {
                first: 3,
                last: None,
            });
        }),
        ("must be 1 to 7", &|r| r.savings = gate(8)),
        ("repeats each step", &|r| {
            r.guide = Some(GuidanceConfig {
                every: Some(2),
                ..GuidanceConfig::new(&prepose::guidance::layout::Layout)
            });
        }),
        ("at least 2", &|r| {
            r.guide = Some(GuidanceConfig {
                extrapolate: true,
                ..GuidanceConfig::new(&Pos)
            });
        }),
    ];
    for (why, change) in cases {
        let said = refused(change);
        assert!(said.contains(why), "{why}: {said}");
    }
    // What begins before the gate and ends there is fine.
    let mut fine = Request {
        guide: Some(guided()),
        switch: Some(PromptSwitch {
            to: "a dog on the left of a cat".into(),
            at: 2,
        }),
        ..case.saving(gate(3))
    };
    case.engine.blueprint().check(&mut fine).unwrap();
}
