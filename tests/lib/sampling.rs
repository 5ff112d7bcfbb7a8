//! Noise against PyTorch's, schedulers against diffusers', from `fixtures/`.

use std::collections::HashMap;

use burn::tensor::{Device, Tensor, TensorData};
use prepose::sampling::noise::{NoiseKind, NoiseSource};
use prepose::sampling::schedulers::{History, Schedule, Scheduler, SchedulerKind, Spacing};
use serde_json::{Value, json};

fn fixture(case: &str) -> (Value, HashMap<String, Vec<f32>>) {
    let folder = crate::support::fixture(case);
    let json = std::fs::read(folder.join("case.json")).unwrap();
    let bytes = std::fs::read(folder.join("expected.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let tensors = file.tensors().into_iter().map(|(name, view)| {
        let values = view
            .data()
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        (name, values.collect())
    });
    (serde_json::from_slice(&json).unwrap(), tensors.collect())
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// `seed-1` is torch's name for the largest 64-bit seed.
fn seed(part: &str) -> u64 {
    let number: i128 = part.trim_start_matches("seed").parse().unwrap();
    number as u64
}

#[test]
fn torch_noise_bit_for_bit() {
    let (case, expected) = fixture("noise");
    let mut checked = 0;
    for (name, values) in &expected {
        let parts: Vec<&str> = name.split('/').collect();
        if parts[0] == "cpu" {
            let drawn = NoiseSource::new(NoiseKind::Torch, seed(parts[1])).randn(values.len());
            assert_eq!(bits(&drawn), bits(values), "{name}");
            checked += 1;
        }
        if parts[0] == "cpu_sequence" && parts[2] == "0" {
            let mut source = NoiseSource::new(NoiseKind::Torch, seed(parts[1]));
            for (i, size) in case["sequence"].as_array().unwrap().iter().enumerate() {
                let drawn = source.randn(size.as_u64().unwrap() as usize);
                let name = format!("cpu_sequence/{}/{i}", parts[1]);
                assert_eq!(bits(&drawn), bits(&expected[&name]), "{name}");
                checked += 1;
            }
        }
    }
    assert!(checked > 100, "only {checked} draws in the fixture");
}

#[test]
fn philox_noise() {
    let (_, expected) = fixture("noise");
    for (name, values) in expected
        .iter()
        .filter(|(name, _)| name.starts_with("philox/"))
    {
        let parts: Vec<&str> = name.split('/').collect();
        let draw: usize = parts[3].trim_start_matches("draw").parse().unwrap();
        let mut source = NoiseSource::new(NoiseKind::Philox, seed(parts[1]));
        let drawn = (0..=draw)
            .map(|_| source.randn(values.len()))
            .last()
            .unwrap();
        let error = drawn
            .iter()
            .zip(values)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(error < 1e-6, "{name}: {error}");
    }
    // The values in the comments of A1111's own implementation.
    let known = [-0.9246626, -0.42534414, -2.6438457, 0.14518388];
    let drawn = NoiseSource::new(NoiseKind::Philox, 0).randn(4);
    assert!(
        drawn.iter().zip(known).all(|(a, b)| (a - b).abs() < 1e-6),
        "{drawn:?}"
    );
}

fn tensor(values: &[f32]) -> Tensor<4> {
    Tensor::from_data(
        TensorData::new(values.to_vec(), [1, 4, 2, 2]),
        &Device::flex(),
    )
}

fn values(tensor: Tensor<4>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

/// The fixture's model: 0.3 · x + 0.1 · sin(t / 50).
fn fake_model(input: Tensor<4>, t: f64) -> Tensor<4> {
    input * 0.3 + (0.1 * (t / 50.0).sin()) as f32
}

/// Largest error of a trajectory, relative to the larger of 1 and the sample's largest value.
fn trajectory_error(
    schedule: &Schedule,
    start: usize,
    first: Tensor<4>,
    noise: Option<&Vec<f32>>,
    expected: &[f32],
) -> f32 {
    let mut draws = noise.map(|noise| noise.chunks(16)).into_iter().flatten();
    let mut history = History::default();
    let mut sample = first;
    let mut error: f32 = 0.0;
    let mut compare = |sample: &Tensor<4>, expected: &[f32]| {
        let scale = expected.iter().fold(1.0f32, |max, v| max.max(v.abs()));
        for (a, b) in values(sample.clone()).iter().zip(expected) {
            let difference = (a - b).abs() / scale;
            error = if difference.is_nan() {
                f32::INFINITY
            } else {
                error.max(difference)
            };
        }
    };
    compare(&sample, &expected[..16]);
    for i in start..schedule.len() {
        let input = schedule.scale_model_input(sample.clone(), i);
        let answer = fake_model(input, schedule.timestep(i));
        let noise = schedule
            .needs_noise(i)
            .then(|| tensor(draws.next().expect("a draw for each step")));
        sample = schedule
            .step(&mut history, i, answer, sample, noise)
            .prev_sample;
        let row = (i - start + 1) * 16;
        compare(&sample, &expected[row..row + 16]);
    }
    assert!(draws.next().is_none(), "diffusers drew more noise");
    assert_eq!(expected.len(), (schedule.len() - start + 1) * 16);
    error
}

#[test]
fn other_spacings_follow_diffusers() {
    let (case, expected) = fixture("schedulers");
    let mut runs = 0;
    for case in case["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let spacing = name.split('/').next_back().unwrap();
        let Ok(spacing) = <Spacing as clap::ValueEnum>::from_str(spacing, false) else {
            continue;
        };
        // A checkpoint that says something else.
        let mut config = case["checkpoint_config"].clone();
        config["timestep_spacing"] = json!(match spacing {
            Spacing::Trailing => "leading",
            _ => "trailing",
        });
        let kind: SchedulerKind = case["scheduler"].as_str().unwrap().parse().unwrap();
        let scheduler = Scheduler::from_config(&config, Some(kind)).unwrap();
        let scheduler = scheduler.with_spacing(spacing).unwrap();
        for run in case["runs"].as_array().unwrap() {
            let prefix = run["prefix"].as_str().unwrap();
            let steps = run["steps"].as_u64().unwrap() as usize;
            let schedule = scheduler.schedule(steps).unwrap();
            let first = tensor(&expected["initial_noise"]) * schedule.init_noise_sigma();
            let noise = expected.get(&format!("{prefix}/noise"));
            let trajectory = &expected[&format!("{prefix}/trajectory")];
            let error = trajectory_error(&schedule, 0, first, noise, trajectory);
            assert!(error < 1e-5, "{prefix}: {error:e}");
            runs += 1;
        }
    }
    assert!(runs > 50, "{runs} trajectories");
    for kind in ["lcm", "tcd"] {
        let config = json!({"_class_name": "LCMScheduler"});
        let scheduler = Scheduler::from_config(&config, Some(kind.parse().unwrap())).unwrap();
        let error = scheduler.with_spacing(Spacing::Trailing).unwrap_err();
        assert!(error.to_string().contains("distilled"), "{error}");
    }
}

#[test]
fn who_reads_the_spacing_visits_other_noise_levels_by_it() {
    for karras in [false, true] {
        let config = json!({
            "_class_name": "DDIMScheduler", "beta_start": 0.00085, "beta_end": 0.012,
            "beta_schedule": "scaled_linear", "steps_offset": 1, "use_karras_sigmas": karras,
        });
        for kind in SchedulerKind::ALL {
            let scheduler = Scheduler::from_config(&config, Some(kind)).unwrap();
            let visited = |spacing| {
                let schedule = scheduler.clone().with_spacing(spacing).ok()?;
                let schedule = schedule.schedule(10).unwrap();
                Some((schedule.timesteps().to_vec(), schedule.sigmas().to_vec()))
            };
            let differ = visited(Spacing::Leading) != visited(Spacing::Trailing);
            assert_eq!(scheduler.reads_spacing(), differ, "{kind}, {karras}");
        }
    }
}

#[test]
fn trajectories_of_diffusers() {
    let (case, expected) = fixture("schedulers");
    let mut failures = Vec::new();
    let mut runs = 0;
    for case in case["cases"].as_array().unwrap() {
        let kind: SchedulerKind = case["scheduler"].as_str().unwrap().parse().unwrap();
        let scheduler = Scheduler::from_config(&case["checkpoint_config"], Some(kind)).unwrap();
        let steps = |run: &Value| run["steps"].as_u64().unwrap() as usize;
        let mut check = |prefix: &str, schedule: &Schedule, start: usize, first: Tensor<4>| {
            runs += 1;
            let times = &expected[&format!("{prefix}/timesteps")];
            let own: Vec<f32> = schedule.timesteps()[start..]
                .iter()
                .map(|t| *t as f32)
                .collect();
            let off = own
                .iter()
                .zip(times)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f32::max);
            if own.len() != times.len() || off > 1e-3 {
                failures.push(format!("{prefix}: timesteps {own:?}, not {times:?}"));
                return;
            }
            if let Some(sigmas) = expected.get(&format!("{prefix}/sigmas")) {
                let off = schedule
                    .sigmas()
                    .iter()
                    .zip(sigmas)
                    .map(|(a, b)| (a - b).abs() / b.max(1.0));
                let off = off.fold(0.0, f32::max);
                if off > 1e-6 {
                    failures.push(format!("{prefix}: sigmas off by {off:e}"));
                }
            }
            let noise = expected.get(&format!("{prefix}/noise"));
            let trajectory = &expected[&format!("{prefix}/trajectory")];
            let error = trajectory_error(schedule, start, first, noise, trajectory);
            println!("{prefix} {error:e}");
            if error > 1e-5 {
                failures.push(format!("{prefix}: off by {error:e}"));
            }
        };
        for run in case["runs"].as_array().unwrap() {
            let mut schedule = scheduler.schedule(steps(run)).unwrap();
            if let Some(eta) = case["eta"].as_f64() {
                schedule = schedule.with_eta(eta).unwrap();
            }
            let first = tensor(&expected["initial_noise"]) * schedule.init_noise_sigma();
            check(run["prefix"].as_str().unwrap(), &schedule, 0, first);
        }
        for run in case["img2img"].as_array().unwrap() {
            let schedule = scheduler.schedule(steps(run)).unwrap();
            let start = schedule
                .start_index(run["strength"].as_f64().unwrap())
                .unwrap();
            assert_eq!(start as u64, run["t_start"].as_u64().unwrap());
            let [original, noise] =
                ["original", "initial_noise"].map(|name| tensor(&expected[name]));
            let first = schedule.add_noise(original, noise, start);
            check(run["prefix"].as_str().unwrap(), &schedule, start, first);
        }
    }
    assert!(
        failures.is_empty(),
        "{}\nof {runs} runs",
        failures.join("\n")
    );
    assert!(runs > 200, "only {runs} runs in the fixture");
}

/// Stable Diffusion 1.5's file.
fn sd1() -> Value {
    json!({
        "_class_name": "PNDMScheduler", "beta_start": 0.00085, "beta_end": 0.012,
        "beta_schedule": "scaled_linear", "clip_sample": false, "num_train_timesteps": 1000,
        "set_alpha_to_one": false, "skip_prk_steps": true, "steps_offset": 1, "trained_betas": null
    })
}

/// Settings that the fixture leaves out: the first four numbers of the last sample of diffusers 0.42.1 on the
/// fixture's model, start and noise from seed 7. The configuration is SD1.5's with these changes; null removes.
#[test]
fn rarer_settings() {
    let cases: [(&str, usize, Value, [f32; 4]); 9] = [
        (
            "pndm",
            20,
            json!({"skip_prk_steps": null, "prediction_type": "v_prediction"}),
            [-0.50678563, 0.22945794, 0.53423285, -0.8509187],
        ),
        (
            "unipc",
            10,
            json!({"solver_order": 3}),
            [-4.434877, 2.0928464, 4.795057, -7.4860454],
        ),
        (
            "unipc",
            10,
            json!({"solver_type": "bh1", "final_sigmas_type": "sigma_min"}),
            [-4.3399706, 2.151849, 4.8391976, -7.374358],
        ),
        (
            "unipc",
            5,
            json!({"use_karras_sigmas": true, "final_sigmas_type": "sigma_min"}),
            [-4.178559, 1.7089558, 4.1461463, -6.930481],
        ),
        (
            "dpmpp_2m",
            5,
            json!({"solver_type": "heun"}),
            [-4.8849607, 2.01099, 4.8656316, -8.10824],
        ),
        (
            "dpmpp_2m",
            20,
            json!({"beta_schedule": "squaredcos_cap_v2", "lambda_min_clipped": -5.1}),
            [-42.276546, 13.10037, 36.02415, -68.160645],
        ),
        (
            "ddim",
            10,
            json!({"beta_schedule": "squaredcos_cap_v2"}),
            [-2.5612957, 1.4406655, 3.0973136, -4.43188],
        ),
        (
            "lcm",
            4,
            json!({"original_inference_steps": 100, "timestep_scaling": 7.0, "clip_sample": true, "clip_sample_range": 2.0}),
            [-1.2836765, 0.09260242, 1.538131, 0.9710943],
        ),
        (
            "euler",
            7,
            json!({"num_train_timesteps": 600, "use_karras_sigmas": true}),
            [-2.1170275, 1.1380708, 2.4855485, -3.6385148],
        ),
    ];
    for (name, steps, changes, expected) in cases {
        let mut config = sd1();
        for (key, value) in changes.as_object().unwrap() {
            config[key] = value.clone();
        }
        let scheduler = Scheduler::from_config(&config, Some(name.parse().unwrap())).unwrap();
        let schedule = scheduler.schedule(steps).unwrap();
        let mut source = NoiseSource::new(NoiseKind::Torch, 7);
        let mut history = History::default();
        let mut sample = tensor(&source.randn(16)) * schedule.init_noise_sigma();
        for (i, &time) in schedule.timesteps().iter().enumerate() {
            let input = schedule.scale_model_input(sample.clone(), i);
            let noise = schedule.needs_noise(i).then(|| tensor(&source.randn(16)));
            let answer = fake_model(input, time);
            sample = schedule
                .step(&mut history, i, answer, sample, noise)
                .prev_sample;
        }
        for (a, b) in values(sample).iter().zip(expected) {
            assert!(
                (a - b).abs() < 1e-5 * b.abs().max(1.0),
                "{name} {changes}: {a}, not {b}"
            );
        }
    }
}

/// How much of an edit before step `at` arrives in the final latents, relative to DDIM's share, when the
/// predicted noise does not depend on the sample.
fn edit_response(kind: SchedulerKind, steps: usize, at: usize, told: bool) -> f32 {
    let share = |kind: SchedulerKind, edit: f32| {
        let schedule = Scheduler::from_config(&sd1(), Some(kind))
            .unwrap()
            .schedule(steps)
            .unwrap();
        let mut history = History::default();
        let mut sample = tensor(&[0.5; 16]);
        for i in 0..schedule.len() {
            if i == at && edit != 0.0 {
                // The same change of the picture, whatever the scale of this method's samples.
                let alpha = (
                    sample.clone() + 0.0,
                    schedule.add_noise(tensor(&[1.0; 16]), tensor(&[0.0; 16]), i),
                );
                let edited = alpha.0 + alpha.1 * edit;
                if told {
                    history.edited(&sample, &edited);
                }
                sample = edited;
            }
            let answer = tensor(&[(0.3 * (schedule.timestep(i) / 200.0).sin()) as f32; 16]);
            sample = schedule
                .step(&mut history, i, answer, sample, None)
                .prev_sample;
        }
        values(sample)[0]
    };
    share(kind, 1.0) - share(kind, 0.0)
}

#[test]
fn edited_latents_survive() {
    use SchedulerKind::{Ddim, Dpmpp2m, Dpmpp2mKarras, Euler, Pndm, UniPc};
    for at in [0, 1, 2, 5, 10, 20, 24, 29] {
        for kind in [Ddim, Pndm, Euler, Dpmpp2m, Dpmpp2mKarras, UniPc] {
            let told = edit_response(kind, 30, at, true);
            let plain = edit_response(kind, 30, at, false);
            println!("{kind} step {at}: {told:.4}, untold {plain:.4}");
            assert!(
                (told - 1.0).abs() < 0.01,
                "{kind} keeps {told} of an edit before step {at}"
            );
        }
    }
    // What happens without: the reason for `History::edited`.
    assert!(edit_response(UniPc, 30, 10, false) < 0.2);
    assert!(edit_response(Pndm, 30, 1, false).abs() < 0.01);
}

#[test]
fn settings_that_would_be_ignored_are_refused() {
    let with = |key: &str, value: Value| {
        let mut config = sd1();
        config[key] = value;
        config
    };
    let message = |config: Value, kind| {
        Scheduler::from_config(&config, kind)
            .unwrap_err()
            .to_string()
    };
    let unipc = Some(SchedulerKind::UniPc);
    let refused = message(with("use_flow_sigmas", json!(true)), unipc);
    assert_eq!(
        refused,
        "scheduler_config.json: use_flow_sigmas = true is not supported for unipc; choose another --scheduler"
    );
    assert!(message(with("thresholding", json!(true)), unipc).contains("thresholding"));
    assert!(message(with("beta_schedule", json!("laplace")), None).contains("laplace"));
    assert!(
        message(with("_class_name", json!("HeunDiscreteScheduler")), None).contains("--scheduler")
    );
    assert!(message(with("beta_start", json!("x")), None).contains("cannot be read"));
    for (key, value) in [
        ("beta_end", json!(1.5)),
        ("num_train_timesteps", json!(1e9 as u64)),
    ] {
        assert!(message(with(key, value), None).contains(key));
    }
    let zero_snr = with("rescale_betas_zero_snr", json!(true));
    assert!(message(zero_snr, Some(SchedulerKind::Ddim)).contains("epsilon"));
    assert!(message(json!({}), None).contains("_class_name"));
    // A key that the class in use does not have is nobody's business.
    assert!(Scheduler::from_config(&with("use_flow_sigmas", json!(true)), None).is_ok());
    assert!(
        "heun"
            .parse::<SchedulerKind>()
            .unwrap_err()
            .to_string()
            .contains("ddim, pndm")
    );
    for kind in SchedulerKind::ALL {
        let scheduler = Scheduler::from_config(&sd1(), Some(kind)).unwrap();
        for steps in [0, 1001, usize::MAX] {
            assert!(
                scheduler
                    .schedule(steps)
                    .unwrap_err()
                    .to_string()
                    .contains("steps")
            );
        }
        let schedule = scheduler.schedule(7).unwrap();
        assert_eq!(
            schedule.len(),
            if kind == SchedulerKind::Pndm { 8 } else { 7 }
        );
        for strength in [0.0, -1.0, 1.1, f64::NAN, 0.1] {
            assert!(
                schedule
                    .start_index(strength)
                    .unwrap_err()
                    .to_string()
                    .contains("strength")
            );
        }
    }
}

/// Every number of steps makes a schedule that goes down and ends in finite latents.
#[test]
fn any_number_of_steps() {
    for kind in SchedulerKind::ALL {
        for spacing in ["leading", "linspace", "trailing"] {
            let mut config = sd1();
            config["timestep_spacing"] = json!(spacing);
            let scheduler = Scheduler::from_config(&config, Some(kind)).unwrap();
            for steps in (1..=50).chain([99, 100, 333, 500, 999]) {
                let Ok(schedule) = scheduler.schedule(steps) else {
                    assert!(matches!(kind, SchedulerKind::Lcm | SchedulerKind::Tcd) && steps > 50);
                    continue;
                };
                let times = schedule.timesteps();
                assert!(
                    times.is_sorted_by(|a, b| a >= b),
                    "{kind} {spacing} {steps}: {times:?}"
                );
                assert!(
                    times.iter().all(|t| (0.0..=1000.0).contains(t)),
                    "{kind} {spacing} {steps}"
                );
                if steps > 50 {
                    continue;
                }
                let mut history = History::default();
                let mut sample = tensor(&[1.0; 16]) * schedule.init_noise_sigma();
                for (i, &time) in times.iter().enumerate() {
                    let input = schedule.scale_model_input(sample.clone(), i);
                    let noise = schedule.needs_noise(i).then(|| tensor(&[0.1; 16]));
                    let output =
                        schedule.step(&mut history, i, fake_model(input, time), sample, noise);
                    sample = output.prev_sample;
                }
                assert!(
                    values(sample).iter().all(|v| v.is_finite()),
                    "{kind} {spacing} {steps}"
                );
            }
        }
    }
}
