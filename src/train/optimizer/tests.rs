//! Against what PyTorch, transformers, bitsandbytes and diffusers compute (`fixtures/training`).

use std::path::PathBuf;

use prepose_formats::TensorFile;
use serde_json::Value;

use crate::adafactor::Adafactor;
use crate::adamw::AdamW;
use crate::average::Average;
use crate::blockwise::Map;
use crate::clip;
use crate::draws::{Draws, Purpose, Timesteps};
use crate::objective::{Target, Weighting, error, noisy_parts};
use crate::rate::{Decay, Rate};
use crate::rule::{Moments, Rule, Trained};
use crate::scale::Scale;
use crate::state::{self, Place, StateError};

fn fixture(name: &str) -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fixtures/training");
    PathBuf::from(root).join(name)
}

struct Expected {
    file: TensorFile,
    info: Value,
}

impl Expected {
    fn read() -> Self {
        Self {
            file: TensorFile::open(&fixture("expected.safetensors")).unwrap(),
            info: serde_json::from_slice(&std::fs::read(fixture("case.json")).unwrap()).unwrap(),
        }
    }

    fn numbers(&self, name: &str) -> Vec<f32> {
        state::numbers(&self.file, name).unwrap_or_else(|| panic!("{name}"))
    }

    fn shape(&self, name: &str) -> Vec<usize> {
        self.file.info(name).unwrap().shape.clone()
    }

    fn setting(&self, rule: &str, name: &str) -> f64 {
        self.info[rule][name].as_f64().unwrap()
    }
}

/// The largest difference, as a share of the largest value.
fn difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(1e-30f32, |most, v| most.max(v.abs()));
    let differences = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, f32::max) / largest
}

/// Takes all steps of a case and compares the weights after each.
fn follow(expected: &Expected, name: &str, rule: &Rule, rate: f64) -> Trained {
    let (start, moved) = (format!("{name}/start"), format!("{name}/weights"));
    let shape = expected.shape(&start);
    let mut tensor = Trained::new(rule, "x", &shape, expected.numbers(&start));
    let length = tensor.values.len();
    let gradients = expected.numbers(&format!("{name}/gradients"));
    let moved = expected.numbers(&moved);
    let steps = gradients
        .chunks_exact(length)
        .zip(moved.chunks_exact(length));
    for (step, (gradient, after)) in steps.enumerate() {
        rule.step(&mut tensor, gradient, rate, step as u64 + 1);
        let off = difference(&tensor.values, after);
        assert!(off < 1e-6, "{name}, step {step}: {off}");
    }
    tensor
}

#[test]
fn adamw_moves_as_in_pytorch() {
    let expected = Expected::read();
    for name in ["adamw/usual", "adamw/far"] {
        let settings = &expected.info[name];
        let adam = AdamW {
            beta1: settings["betas"][0].as_f64().unwrap(),
            beta2: settings["betas"][1].as_f64().unwrap(),
            eps: expected.setting(name, "eps"),
            weight_decay: expected.setting(name, "weight_decay"),
        };
        let rate = expected.setting(name, "lr");
        let tensor = follow(&expected, name, &Rule::AdamW(adam), rate);
        let Moments::Full([mean, square]) = &tensor.moments else {
            panic!("{:?}", tensor.moments);
        };
        assert!(difference(mean, &expected.numbers(&format!("{name}/mean"))) < 1e-6);
        assert!(difference(square, &expected.numbers(&format!("{name}/square"))) < 1e-6);
    }
}

#[test]
fn codes_stand_for_the_values_of_bitsandbytes() {
    let expected = Expected::read();
    for (map, name) in [(Map::signed(), "signed"), (Map::unsigned(), "unsigned")] {
        let values = expected.numbers(&format!("adamw8bit/{name}"));
        assert!(difference(map.values(), &values) < 1e-7, "{name}");
    }
}

#[test]
fn adamw_in_8_bits_moves_as_in_bitsandbytes() {
    let expected = Expected::read();
    let adam = AdamW::default();
    let rate = expected.setting("adamw8bit", "lr");
    for name in ["adamw8bit/blocks", "adamw8bit/small"] {
        let tensor = follow(&expected, name, &Rule::AdamW8bit(adam), rate);
        match (&tensor.moments, name) {
            (Moments::Blocks([mean, square]), "adamw8bit/blocks") => {
                for (found, part) in [(mean, "mean_codes"), (square, "square_codes")] {
                    let codes = expected.numbers(&format!("{name}/{part}"));
                    let other = found.codes.iter().zip(&codes);
                    let other = other.filter(|(a, b)| f32::from(**a) != **b).count();
                    // Those that lie between two values to within rounding.
                    assert!(
                        other * 1000 <= codes.len(),
                        "{part}: {other} of {}",
                        codes.len()
                    );
                }
            }
            (Moments::Full(_), "adamw8bit/small") => {}
            (moments, _) => panic!("{moments:?}"),
        }
    }
}

#[test]
fn a_gradient_that_is_no_number_changes_no_weight_in_8_bits() {
    let rule = Rule::AdamW8bit(AdamW::default());
    let mut tensor = Trained::new(&rule, "x", &[5000], vec![0.5; 5000]);
    let mut gradient = vec![0.1; 5000];
    gradient[7] = f32::NAN;
    rule.step(&mut tensor, &gradient, 1e-2, 1);
    assert_eq!(tensor.values[7], 0.5);
    assert!(tensor.values.iter().all(|value| value.is_finite()));
    assert_ne!(tensor.values[8], 0.5);
}

#[test]
fn adafactor_moves_as_in_transformers() {
    let expected = Expected::read();
    let adafactor = Adafactor {
        weight_decay: expected.setting("adafactor", "weight_decay"),
        ..Adafactor::default()
    };
    let rate = expected.setting("adafactor", "lr");
    for name in ["matrix", "convolution", "vector"] {
        let name = format!("adafactor/{name}");
        follow(&expected, &name, &Rule::Adafactor(adafactor), rate);
    }
}

#[test]
fn rates_follow_diffusers() {
    let expected = Expected::read();
    for (name, decay) in [
        ("constant", Decay::Constant),
        ("linear", Decay::Linear),
        ("cosine", Decay::Cosine),
    ] {
        let rate = Rate {
            peak: 0.5,
            warmup: 4,
            decay,
        };
        let values = expected.info["rates"][name].as_array().unwrap();
        assert_eq!(values.len(), 20);
        for (step, value) in values.iter().enumerate() {
            let found = rate.at(step as u64, 20);
            assert!(
                (found - value.as_f64().unwrap()).abs() < 1e-12,
                "{name}, {step}"
            );
        }
    }
}

#[test]
fn losses_are_scaled_as_in_pytorch() {
    let expected = Expected::read();
    let mut scale = Scale::default();
    let stretches = expected.info["scales"].as_array().unwrap();
    assert!(stretches.len() > 5);
    for stretch in stretches {
        let number = |key: &str| stretch[key].as_f64().unwrap();
        for _ in 0..number("steps") as u64 {
            scale = scale.after(stretch["finite"].as_bool().unwrap());
        }
        assert_eq!(f64::from(scale.factor()), number("scale"), "{stretch}");
    }
}

#[test]
fn averages_follow_diffusers() {
    let expected = Expected::read();
    let (values, averages) = (
        expected.numbers("average/values"),
        expected.numbers("average/averages"),
    );
    let average = Average { decay: 0.6 };
    let mut own = averages[..6].to_vec();
    let rows = values.chunks_exact(6).zip(averages.chunks_exact(6));
    for (update, (values, expected)) in rows.enumerate().skip(1) {
        average.update(&mut own, values, update as u64);
        assert!(difference(&own, expected) < 1e-6, "{update}");
    }
    assert!(difference(&own, &values[values.len() - 6..]) > 1e-2);
}

#[test]
fn one_norm_is_that_of_all_gradients() {
    let expected = Expected::read();
    let gradients = [0, 1].map(|i| expected.numbers(&format!("clip/{i}/before")));
    let norm = clip::norm(gradients.iter().map(Vec::as_slice));
    assert!((norm as f32 / expected.numbers("clip/norm")[0] - 1.0).abs() < 1e-6);
    for (i, gradient) in gradients.iter().enumerate() {
        let factor = clip::factor(norm, 1.0) as f32;
        let clipped: Vec<f32> = gradient.iter().map(|g| g * factor).collect();
        let after = expected.numbers(&format!("clip/{i}/after"));
        assert!(difference(&clipped, &after) < 1e-6);
    }
    assert_eq!(clip::factor(0.5, 1.0), 1.0);
}

#[test]
fn objectives_follow_diffusers() {
    let expected = Expected::read();
    let alphas = expected.numbers("objective/alphas");
    let [clean, noise, prediction, noisy] = ["clean", "noise", "prediction", "noisy"]
        .map(|name| expected.numbers(&format!("objective/{name}")));
    let length = clean.len() / 2;
    let mixed = |[a, b]: [f32; 2], sample: usize| -> Vec<f32> {
        let part = sample * length..(sample + 1) * length;
        let both = clean[part.clone()].iter().zip(&noise[part]);
        both.map(|(clean, noise)| a * clean + b * noise).collect()
    };
    for (target, name) in [
        (Target::Epsilon, "epsilon"),
        (Target::Velocity, "v_prediction"),
    ] {
        for (weighting, weights) in [
            (Weighting::Even, "even"),
            (Weighting::MinSnr(5.0), "min_snr"),
        ] {
            let read = |part: &str| expected.numbers(&format!("objective/{name}/{weights}/{part}"));
            let (losses, gradients) = (read("losses"), read("gradient"));
            for sample in 0..2 {
                let alpha = f64::from(alphas[sample]);
                let part = sample * length..(sample + 1) * length;
                assert!(
                    difference(&mixed(noisy_parts(alpha), sample), &noisy[part.clone()]) < 1e-6
                );
                let wanted = mixed(target.parts(alpha), sample);
                let factor = weighting.factor(target, alpha);
                let (loss, gradient) = error(&prediction[part.clone()], &wanted, factor, 2);
                assert!(
                    (loss as f32 / losses[sample] - 1.0).abs() < 1e-5,
                    "{name} {weights}"
                );
                assert!(
                    difference(&gradient, &gradients[part]) < 1e-5,
                    "{name} {weights}"
                );
            }
        }
    }
    assert_eq!(Weighting::MinSnr(5.0).factor(Target::Epsilon, 0.0), 1.0);
    assert_eq!(Weighting::MinSnr(5.0).factor(Target::Velocity, 0.0), 0.0);
}

#[test]
fn a_state_that_was_kept_goes_on_as_if_it_were_never_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    let rules = [
        Rule::AdamW(AdamW::default()),
        Rule::AdamW8bit(AdamW::default()),
        Rule::Adafactor(Adafactor::default()),
    ];
    for rule in rules {
        let fresh = || {
            let values =
                |length: usize, by: f32| (0..length).map(|i| (i as f32 * by).sin()).collect();
            vec![
                Trained::new(&rule, "wide", &[20, 256], values(5120, 0.3)),
                Trained::new(&rule, "bias", &[9], values(9, 0.7)),
            ]
        };
        let average = Average { decay: 0.9 };
        let steps =
            |trained: &mut Vec<Trained>, averages: &mut [Vec<f32>], steps: std::ops::Range<u64>| {
                for step in steps {
                    let gradients: Vec<Vec<f32>> = (trained.iter())
                        .map(|t| {
                            t.values
                                .iter()
                                .map(|v| (v * 3.0 + step as f32).cos() * 0.1)
                                .collect()
                        })
                        .collect();
                    rule.step_all(trained, &gradients, 1e-2, step + 1);
                    for (average_of, tensor) in averages.iter_mut().zip(&*trained) {
                        average.update(average_of, &tensor.values, step + 1);
                    }
                }
            };
        let copies =
            |trained: &[Trained]| trained.iter().map(|t| t.values.clone()).collect::<Vec<_>>();
        let mut whole = fresh();
        let mut averages = copies(&whole);
        steps(&mut whole, &mut averages, 0..10);

        let mut first = fresh();
        let mut kept = copies(&first);
        steps(&mut first, &mut kept, 0..5);
        let place = Place {
            step: 5,
            batch: 10,
            skipped: 1,
            scale: Some(Scale {
                exponent: 12,
                good: 3,
            }),
        };
        state::save(&path, &place, &first, &kept).unwrap();
        let mut second = fresh();
        let mut again = copies(&second);
        assert_eq!(state::load(&path, &mut second, &mut again).unwrap(), place);
        assert_eq!((&second, &again), (&first, &kept));
        steps(&mut second, &mut again, 5..10);
        assert_eq!((&second, &again), (&whole, &averages));
    }
    // The state of another rule is not taken for this one's.
    let mut other = vec![Trained::new(&rules[0], "wide", &[20, 256], vec![0.0; 5120])];
    let refused = state::load(&path, &mut other, &mut []).unwrap_err();
    assert!(matches!(refused, StateError::Other { .. }), "{refused}");
    std::fs::write(&path, b"half").unwrap();
    assert!(matches!(
        state::load(&path, &mut other, &mut []),
        Err(StateError::Read(_))
    ));
}

#[test]
fn draws_depend_on_their_place_alone() {
    let draws = Draws(7);
    let order = draws.shuffled(Purpose::Order, 3, 50);
    assert_eq!(order, draws.shuffled(Purpose::Order, 3, 50));
    assert_ne!(order, draws.shuffled(Purpose::Order, 4, 50));
    assert_ne!(order, draws.shuffled(Purpose::Batches, 3, 50));
    assert_ne!(order, Draws(8).shuffled(Purpose::Order, 3, 50));
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..50).collect::<Vec<_>>());
    // Each place of each number is as likely: 50 numbers at the first place of 5,000 orders.
    let mut first = [0u32; 50];
    for number in 0..5000 {
        first[draws.shuffled(Purpose::Order, number, 50)[0]] += 1;
    }
    assert!(
        first.iter().all(|count| (55..150).contains(count)),
        "{first:?}"
    );
    let dropped = (0..10_000)
        .filter(|n| draws.uniform(Purpose::Dropout, *n) < 0.1)
        .count();
    assert!((900..1100).contains(&dropped), "{dropped}");
}

#[test]
fn timesteps_are_drawn_as_asked() {
    let share = |timesteps: Timesteps, above: usize| {
        let drawn = (0..20_000).map(|number| timesteps.draw(Draws(1), number, 1000));
        drawn.filter(|t| *t >= above).count() as f64 / 20_000.0
    };
    assert!((share(Timesteps::Uniform, 700) - 0.3).abs() < 0.01);
    // 1 − t^(5/3)
    assert!((share(Timesteps::Layout(1.0), 700) - (1.0 - 0.7f64.powf(5.0 / 3.0))).abs() < 0.01);
    // sigmoid(0.8 z) > 0.7: z > 1.0591
    assert!((share(Timesteps::Layout(0.0), 700) - 0.1448).abs() < 0.01);
    // sigmoid(z) > 0.7: z > 0.8473
    assert!((share(Timesteps::Sigmoid, 700) - 0.1984).abs() < 0.01);
    assert!((share(Timesteps::Sigmoid, 500) - 0.5).abs() < 0.01);
    assert!((0..20_000).all(|number| Timesteps::Sigmoid.draw(Draws(2), number, 10) < 10));
    assert!((0..20_000).all(|number| Timesteps::Layout(0.3).draw(Draws(2), number, 10) < 10));
}
