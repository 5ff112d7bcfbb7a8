//! What an epoch has, and in which order: sizes, mirror images, pairs.

use prepose_optimizer::draws::Draws;
use prepose_scene::Relation;
use serde_json::Value;

use super::*;
use crate::bucket::Fit;
use crate::objects::Object;
use crate::order::Order;
use crate::pairs::{Pair, lines, with_relation};
use crate::sides::{SideWords, names_a_side, swapped};

#[test]
fn buckets_are_kohyas() {
    let cases: Vec<Value> =
        serde_json::from_slice(&fs::read(fixture("buckets.json")).unwrap()).unwrap();
    let number = |value: &Value| value.as_u64().unwrap() as usize;
    let size = |value: &Value| [number(&value[0]), number(&value[1])];
    for case in &cases {
        for no_upscale in [false, true] {
            let side = number(&case["resolution"]);
            let sizes = Sizes {
                resolution: [side, side],
                buckets: Some(Buckets {
                    shortest: number(&case["shortest"]),
                    longest: number(&case["longest"]),
                    step: number(&case["step"]),
                    no_upscale,
                }),
            };
            let chooser = sizes.chooser();
            let expected: Vec<_> = case["sizes"].as_array().unwrap().iter().map(size).collect();
            assert_eq!(chooser.buckets(), expected);
            let fits = case["fits"].as_array().unwrap().iter();
            let mut tried = 0;
            for fit in fits.filter(|fit| fit["no_upscale"].as_bool() == Some(no_upscale)) {
                let found = chooser.fit(size(&fit["size"])).unwrap();
                let expected = (size(&fit["resized"]), size(&fit["bucket"]));
                assert_eq!((found.resized, found.size), expected, "{fit}");
                tried += 1;
            }
            assert_eq!(tried, 40);
        }
    }
    let one = Sizes {
        resolution: [128, 128],
        buckets: None,
    };
    let expected = Fit {
        resized: [192, 128],
        offset: [32, 0],
        size: [128, 128],
    };
    assert_eq!(one.chooser().fit([300, 200]), Ok(expected));
}

#[test]
fn sides_of_buckets_are_multiples_of_their_step() {
    let sides = |shortest, longest, step| {
        let buckets = Buckets {
            shortest,
            longest,
            step,
            no_upscale: false,
        };
        let Buckets {
            shortest, longest, ..
        } = buckets.in_steps();
        (shortest, longest)
    };
    // kohya: min - min % step; max + step - max % step, unless it is a multiple.
    assert_eq!(sides(288, 1152, 64), (288 - 32, 1152));
    assert_eq!(sides(100, 1000, 64), (100 - 36, 1000 + 64 - 40));
    assert_eq!(sides(256, 1024, 64), (256, 1024));
    let sizes = Sizes {
        resolution: [576, 576],
        buckets: Some(
            Buckets {
                shortest: 288,
                longest: 1152,
                step: 64,
                no_upscale: false,
            }
            .in_steps(),
        ),
    };
    let chooser = sizes.chooser();
    let mut sides = chooser.buckets().as_flattened().iter();
    assert!(sides.all(|side| side.is_multiple_of(64)));
    // However long a side may be, none is longer than the area allows.
    let endless = Buckets {
        shortest: 64,
        longest: usize::MAX,
        step: 64,
        no_upscale: false,
    };
    let sizes = Sizes {
        resolution: [64, 128],
        buckets: Some(endless.in_steps()),
    };
    assert_eq!(sizes.chooser().buckets(), [[64, 64], [64, 128], [128, 64]]);
}

#[test]
fn sides_are_words() {
    for caption in [
        "a dog to the left of a cat",
        "the right-hand side",
        "Leftmost chair",
        "turning clockwise",
    ] {
        assert!(names_a_side(caption), "{caption}");
    }
    for caption in [
        "a bright light",
        "a dog and a cat",
        "leftovers on a plate",
        "copyright",
    ] {
        assert!(!names_a_side(caption), "{caption}");
    }
    assert_eq!(
        swapped("A dog to the left of a cat; Right-hand, LEFT. Leftovers"),
        "A dog to the right of a cat; Left-hand, RIGHT. Leftovers"
    );
}

fn samples(captions: &[&str]) -> Vec<Looked> {
    let sample = |caption: &&str| Looked {
        sample: crate::Sample {
            name: (*caption).into(),
            place: crate::Place::File("x".into()),
            caption: (*caption).into(),
            repeats: 1,
            objects: Vec::new(),
            shown: None,
        },
        sha256: String::new(),
        shown_sha256: None,
        size: [8, 8],
        fit: one_size().fit([8, 8]).unwrap(),
    };
    captions.iter().map(sample).collect()
}

#[test]
fn mirror_images_do_not_lie() {
    let both = samples(&["a dog and a cat", "a dog to the left of a cat"]);
    let told = |flips| -> Vec<(usize, bool, String)> {
        let items = items(&both, flips);
        items
            .into_iter()
            .map(|item| (item.sample, item.flipped, item.caption))
            .collect()
    };
    let [neutral, side] = ["a dog and a cat", "a dog to the left of a cat"].map(str::to_owned);
    assert_eq!(
        told(Flips::None),
        [(0, false, neutral.clone()), (1, false, side.clone())]
    );
    assert_eq!(
        told(Flips::Both(SideWords::LeaveOut)),
        [
            (0, false, neutral.clone()),
            (0, true, neutral.clone()),
            (1, false, side.clone())
        ]
    );
    let swapped = told(Flips::Both(SideWords::Swap));
    assert_eq!(
        swapped[3],
        (1, true, "a dog to the right of a cat".to_owned())
    );
    assert_eq!(
        told(Flips::Both(SideWords::Keep))[3],
        (1, true, side.clone())
    );
    // What is not swapped by a word for a word would be wrong.
    let turning = samples(&["a dial turned clockwise, left of a lamp"]);
    for (words, count) in [
        (SideWords::LeaveOut, 1),
        (SideWords::Swap, 1),
        (SideWords::Keep, 2),
    ] {
        assert_eq!(
            items(&turning, Flips::Both(words)).len(),
            count,
            "{words:?}"
        );
    }
    // Phrases say where things are as well as captions do.
    let with_phrase = |phrase: &str| {
        let mut samples = samples(&["two cups"]);
        samples[0].sample.objects = vec![Object {
            phrase: phrase.into(),
            corners: [0.0, 0.0, 0.5, 1.0],
        }];
        samples
    };
    let count = |phrase, words| items(&with_phrase(phrase), Flips::Both(words)).len();
    assert_eq!(count("a cup", SideWords::LeaveOut), 2);
    assert_eq!(count("the left cup", SideWords::LeaveOut), 1);
    assert_eq!(count("the left cup", SideWords::Swap), 2);
    assert_eq!(count("a mirrored cup", SideWords::Swap), 1);
    // In the other order the same is said of the same picture.
    let [other, turned] = ["a cat and a dog", "a cat to the right of a dog"].map(str::to_owned);
    assert_eq!(
        told(Flips::Exchange),
        [
            (0, false, neutral),
            (0, false, other),
            (1, false, side),
            (1, false, turned)
        ]
    );
    // One thing has no other order.
    assert_eq!(items(&samples(&["a dog"]), Flips::Exchange).len(), 1);
}

#[test]
fn an_epoch_has_everything_once_in_batches_of_one_size() {
    let sizes: Vec<_> = (0..23)
        .map(|i| if i % 3 == 0 { [64, 96] } else { [64, 64] })
        .collect();
    let order = Order::new(Draws(5), 4, sizes.clone());
    // 8 of the one size, 15 of the other.
    assert_eq!(order.batches(), 2 + 4);
    let first = order.epoch(0);
    assert_eq!(first.len(), order.batches());
    let mut all = first.concat();
    all.sort_unstable();
    assert_eq!(all, (0..23).collect::<Vec<_>>());
    assert!(
        first
            .iter()
            .all(|batch| batch.iter().all(|item| sizes[*item] == sizes[batch[0]]))
    );
    assert_eq!(first, Order::new(Draws(5), 4, sizes.clone()).epoch(0));
    assert_ne!(first, order.epoch(1));
    assert_ne!(first, Order::new(Draws(6), 4, sizes).epoch(0));
}

#[test]
fn pairs_say_which_is_where() {
    let pair = |file: &str, caption: &str, first_is_left| Pair {
        file: file.into(),
        caption: caption.into(),
        first_is_left,
    };
    let pairs = [
        pair("0.png", "a photo of a cat and a dog.", true),
        pair("1.png", "a photo of a cat and a dog.", true),
        pair("2.png", "An apple and two red cars", false),
        pair("3.png", "one desk is occupied and one boat is clean", false),
    ];
    let said = |with_sides| -> Vec<(String, String)> {
        let lines = lines(&pairs, with_sides).into_iter();
        lines.map(|line| (line.file_name, line.text)).collect()
    };
    assert_eq!(said(false).len(), 4);
    let sides: Vec<_> = (said(true).into_iter())
        .filter(|line| !said(false).contains(line))
        .collect();
    let expected = [
        ("0.png", "a photo of a cat to the left of a dog."),
        ("0.png", "a photo of a dog to the right of a cat."),
        ("1.png", "a photo of a cat to the left of a dog."),
        ("1.png", "a photo of a dog to the right of a cat."),
        ("2.png", "An apple to the right of two red cars"),
        ("2.png", "Two red cars to the left of an apple"),
    ];
    // The last cannot say it by rule.
    assert_eq!(
        sides,
        expected.map(|(file, text)| (file.to_owned(), text.to_owned()))
    );
    assert_eq!(with_relation("a dog and a cat", Relation::Above), None);
    assert_eq!(with_relation("a dog left of a cat", Relation::LeftOf), None);
    assert_eq!(with_relation("a dog", Relation::LeftOf), None);
}
