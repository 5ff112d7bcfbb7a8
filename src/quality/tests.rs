//! Against pytorch-fid, torchmetrics, `prdc`, `vendi-score` and `rke-score` on random features.

use prepose_statistics::bootstrap::Bootstrap;
use serde_json::Value;

use crate::diversity::vendi;
use crate::figures::{Reference, Seen, Set, Settings, figures};
use crate::frechet::frechet;
use crate::kernel::{Subsets, cmmd, kid, rke};
use crate::neighbours::manifold;
use crate::{Features, Measured, Moments, QualityError, inception};

/// Largest deviation from the packages, as a share of the value.
const TOLERANCE: f64 = 1e-6;

fn cases() -> Value {
    serde_json::from_str(include_str!("../../fixtures/quality/cases.json")).unwrap()
}

/// Normal numbers from splitmix64 by Box and Muller, as `scripts/reference/cases/quality.py` makes them.
fn normal(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed;
    let mut uniform = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 * 2f64.powi(-53)
    };
    let mut numbers = Vec::new();
    while numbers.len() < count {
        let (a, b) = (uniform(), uniform());
        let (length, angle) = ((-2.0 * (1.0 - a).ln()).sqrt(), std::f64::consts::TAU * b);
        numbers.extend([length * angle.cos(), length * angle.sin()]);
    }
    numbers.truncate(count);
    numbers
}

fn features(seed: u64, rows: usize, columns: usize, scale: f64, shift: f64) -> Features {
    let numbers = normal(seed, rows * columns).into_iter();
    let values = numbers.map(|x| (scale * x + shift) as f32).collect();
    Features::new(columns, values).unwrap()
}

/// Both sets of each case, and what is expected of them.
fn sets() -> Vec<(Features, Features, Value)> {
    let cases = cases();
    let all = cases["sets"].as_array().unwrap().iter().enumerate();
    all.map(|(i, case)| {
        let size = |key: &str| case[key].as_u64().unwrap() as usize;
        let seed = 2 * i as u64 + 1;
        let columns = size("columns");
        let number = |key: &str| case[key].as_f64().unwrap();
        let second = features(
            seed + 1,
            size("others"),
            columns,
            number("scale"),
            number("shift"),
        );
        let first = features(seed, size("rows"), columns, 1.0, 0.0);
        (first, second, case["expected"].clone())
    })
    .collect()
}

#[track_caller]
fn close(ours: f64, theirs: &Value) {
    let theirs = theirs.as_f64().unwrap();
    let error = (ours - theirs).abs();
    assert!(
        error <= TOLERANCE * theirs.abs(),
        "{ours} and {theirs}: {error:.1e}"
    );
}

/// What every picture contributes has the value as its mean.
#[track_caller]
fn whole(measured: &Measured) -> f64 {
    let mean = measured.each.iter().sum::<f64>() / measured.each.len() as f64;
    let off = (mean - measured.value).abs();
    let size = measured
        .each
        .iter()
        .fold(1.0f64, |most, x| most.max(x.abs()));
    assert!(off < 1e-9 * size, "{mean} is not {}", measured.value);
    measured.value
}

#[test]
fn frechet_distances_are_pytorch_fids() {
    for (first, second, expected) in sets() {
        let there = frechet(&first, &Moments::of(&second).unwrap()).unwrap();
        let back = frechet(&second, &Moments::of(&first).unwrap()).unwrap();
        for distance in [there, back] {
            close(whole(&distance), &expected["nuclear"]);
            if !expected["fid"].is_null() {
                close(distance.value, &expected["fid"]);
            }
        }
        // Nothing is as near as the set itself.
        let itself = frechet(&first, &Moments::of(&first).unwrap()).unwrap();
        assert!(itself.value < 1e-6, "{}", itself.value);
    }
}

#[test]
fn kernels_distances_are_those_of_the_packages() {
    for (first, second, expected) in sets() {
        // torchmetrics compares sets of the same size.
        let count = first.rows().min(second.rows());
        let cut = |set: &Features| {
            let rows = set.iter().take(count).flatten().copied();
            Features::new(set.columns(), rows.collect()).unwrap()
        };
        let found = kid(&cut(&first), &cut(&second), &Subsets::default()).unwrap();
        close(whole(&found.distance), &expected["kid"]);
        assert_eq!(found.deviation, 0.0);
        close(whole(&cmmd(&first, &second).unwrap()), &expected["cmmd"]);
        let sigma = cases()["sigma"].as_f64().unwrap();
        close(whole(&rke(&first, sigma).unwrap()), &expected["rke"]);
        close(whole(&vendi(&first).unwrap()), &expected["vendi"]);
    }
}

#[test]
fn subsets_scatter_around_the_whole() {
    let (first, second, _) = sets().swap_remove(0);
    let subsets = Subsets {
        size: 60,
        ..Subsets::default()
    };
    let all = kid(&first, &second, &Subsets::default()).unwrap();
    let some = kid(&first, &second, &subsets).unwrap();
    assert!(some.deviation > 0.0);
    let error = (some.distance.value - all.distance.value).abs();
    assert!(error < some.deviation, "{error} {}", some.deviation);
    assert_eq!(some, kid(&first, &second, &subsets).unwrap());
}

#[test]
fn manifolds_are_prdcs() {
    for (first, second, expected) in sets() {
        for neighbours in [3, 5] {
            let expected = &expected[format!("prdc{neighbours}")];
            // The first is their real one.
            let found = manifold(&second, &first, neighbours).unwrap();
            for (name, measured) in [
                ("precision", &found.precision),
                ("recall", &found.recall),
                ("density", &found.density),
                ("coverage", &found.coverage),
            ] {
                close(whole(measured), &expected[name]);
            }
        }
    }
}

#[test]
fn inception_scores_are_torchmetrics() {
    let numbers = normal(3, 1000).into_iter();
    // Rounded to f32 before they are doubled, as there.
    let values = numbers.map(|x| 2.0 * x as f32).collect();
    let logits = Features::new(10, values).unwrap();
    for case in cases()["inception"].as_array().unwrap() {
        let splits = case["splits"].as_u64().unwrap() as usize;
        let found = inception::score(&logits, splits).unwrap();
        close(whole(&found.score), &case["mean"]);
        if splits > 1 {
            close(found.deviation, &case["deviation"]);
        }
    }
}

/// Draws pictures themselves, and puts the middle of what comes out at the value: repeated pictures move it.
fn by_drawing(features: &Features, value: f64, of: impl Fn(&Features) -> f64) -> [f64; 2] {
    let rows: Vec<usize> = (0..features.rows()).collect();
    let bootstrap = Bootstrap {
        draws: 300,
        seed: 5,
    };
    let mut drawn = bootstrap.draws_of(&rows, |some| {
        let values = some.iter().flat_map(|row| features.row(**row).to_vec());
        of(&Features::new(features.columns(), values.collect()).unwrap())
    });
    drawn.sort_by(f64::total_cmp);
    let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
    [drawn[7] - mean + value, drawn[292] - mean + value]
}

#[test]
fn intervals_are_those_of_drawn_pictures() {
    let (first, second, _) = sets().swap_remove(0);
    let moments = Moments::of(&second).unwrap();
    let groups: Vec<usize> = (0..first.rows()).collect();
    type Statistic<'a> = Box<dyn Fn(&Features) -> Measured + 'a>;
    let all: [(&str, Statistic); 4] = [
        ("FD", Box::new(|x| frechet(x, &moments).unwrap())),
        ("CMMD", Box::new(|x| cmmd(x, &second).unwrap())),
        ("Vendi", Box::new(|x| vendi(x).unwrap())),
        ("RKE", Box::new(|x| rke(x, 4.0).unwrap())),
    ];
    for (name, of) in &all {
        let measured = of(&first);
        let estimate = measured.estimate(&groups, &Bootstrap::default());
        let [low, high] = by_drawing(&first, measured.value, |x| of(x).value);
        let width = high - low;
        let ours = estimate.high - estimate.low;
        assert!(
            (0.6..1.6).contains(&(ours / width)),
            "{name}: {estimate:?}, drawn {low} {high}"
        );
    }
}

#[test]
fn everything_at_once() {
    let (first, second, _) = sets().swap_remove(0);
    let groups: Vec<usize> = (0..first.rows()).map(|i| i / 4).collect();
    let set = Set {
        features: &first,
        logits: Some(&first),
        groups: &groups,
    };
    let names = |seen, reference| {
        let found = figures(seen, &set, reference, &Settings::default()).unwrap();
        let names: Vec<&str> = found.figures.iter().map(|figure| figure.name).collect();
        for figure in &found.figures {
            let of = figure.estimate;
            assert!(of.low <= of.value && of.value <= of.high, "{figure:?}");
        }
        (names.join(" "), found.warnings.join("; "))
    };
    let moments = Moments::of(&second).unwrap();
    let pictures = Some(Reference::Pictures(&second));
    let balls = "precision recall density coverage";
    let (found, warnings) = names(Seen::ByInception, pictures);
    assert_eq!(found, format!("FID KID x 1000 {balls} IS Vendi RKE"));
    assert!(warnings.contains("200 and 150 here"), "{warnings}");
    assert!(warnings.contains("50,000 are usual"), "{warnings}");
    let (found, _) = names(Seen::ByClip, pictures);
    assert_eq!(found, format!("FD CMMD {balls} IS Vendi RKE"));
    let (found, _) = names(Seen::ByOther, Some(Reference::Moments(&moments)));
    assert_eq!(found, "FD IS Vendi RKE");
    assert_eq!(names(Seen::ByOther, None).0, "IS Vendi RKE");
}

#[test]
fn too_few_pictures_are_told() {
    let (first, second, _) = sets().swap_remove(2);
    let groups: Vec<usize> = (0..first.rows()).collect();
    let of = |features: &Features, others: &Features| {
        let groups = &groups[..features.rows()];
        let set = Set {
            features,
            logits: None,
            groups,
        };
        let reference = Some(Reference::Pictures(others));
        figures(Seen::ByInception, &set, reference, &Settings::default())
    };
    let warnings = of(&first, &second).unwrap().warnings.join("; ");
    assert!(
        warnings.contains("FID of 40 pictures is meaningless"),
        "{warnings}"
    );
    assert!(
        warnings.contains("the reference has 30 pictures"),
        "{warnings}"
    );
    assert!(warnings.contains("40 pictures are few"), "{warnings}");
    let few = Features::new(64, second.iter().take(3).flatten().copied().collect()).unwrap();
    let found = of(&few, &second).unwrap();
    assert!(found.figures.iter().all(|figure| figure.name != "recall"));
    assert!(found.warnings.join(" ").contains("both sets need 6"));
    let one = Features::new(64, few.row(0).to_vec()).unwrap();
    let error = of(&one, &second).unwrap_err().to_string();
    assert!(
        error.contains("at least 2 pictures, but there are 1"),
        "{error}"
    );
    let error = of(&first, &one).unwrap_err().to_string();
    assert!(error.contains("at least 2"), "{error}");
    let other = features(1, 10, 16, 1.0, 0.0);
    let error = of(&first, &other).unwrap_err();
    assert_eq!(
        error,
        QualityError::Columns {
            own: 64,
            reference: 16
        }
    );
}

#[test]
fn equal_pictures_have_one_mode() {
    let same = Features::new(3, [1.0, 2.0, -1.0].repeat(70)).unwrap();
    let groups: Vec<usize> = (0..70).collect();
    assert!((vendi(&same).unwrap().value - 1.0).abs() < 1e-9);
    assert!((rke(&same, 0.5).unwrap().value - 1.0).abs() < 1e-9);
    let set = Set {
        features: &same,
        logits: None,
        groups: &groups,
    };
    let found = figures(Seen::ByOther, &set, None, &Settings::default()).unwrap();
    assert!(found.warnings[0].contains("most pictures are equal"));
    assert!(rke(&same, 0.0).is_err() && rke(&same, f64::NAN).is_err());
    assert!(manifold(&same, &same, 0).is_err());
    assert!(inception::score(&same, 0).is_err());
    assert!(Features::new(0, Vec::new()).is_err());
    let error = Features::new(2, vec![0.0, 1.0, f32::NAN, 0.0]).unwrap_err();
    assert!(error.to_string().contains("feature 0 of picture 1"));
}

#[test]
fn statistics_of_somebody_else_are_checked() {
    let sound = Moments::new(vec![0.0, 1.0], &[2.0, 0.5, 0.5, 1.0]).unwrap();
    assert_eq!(sound.covariance(), [2.0, 0.5, 0.5, 1.0]);
    for (mean, covariance) in [
        (vec![], vec![]),
        (vec![0.0], vec![1.0, 2.0]),
        (vec![0.0, 1.0], vec![2.0, 0.5, 0.4, 1.0]),
        (vec![0.0, 1.0], vec![2.0, 0.5, 0.5, -1.0]),
        (vec![0.0, f64::NAN], vec![2.0, 0.5, 0.5, 1.0]),
    ] {
        assert!(Moments::new(mean, &covariance).is_err());
    }
}
