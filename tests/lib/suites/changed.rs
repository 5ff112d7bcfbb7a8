//! Sets changed on request: "and" in the texts, and parts of sets.

use prepose::prompt::scene::{Relation, Scene};
use prepose::suite::Suite;
use prepose::suite::sets;

use super::suite;

/// "and" for the relation in the text; the relation is still asked for.
#[test]
fn sets_with_and_in_their_texts() {
    for (name, text) in [
        ("spatialbench-uc+and", "A photo of a cake and a bed."),
        ("geneval-position+and", "a photo of a dog and a teddy bear"),
        ("visor+and", "a person and a bicycle"),
    ] {
        let changed = suite(name);
        assert_eq!(
            (changed.name.as_str(), changed.prompts[0].prompt.as_str()),
            (name, text)
        );
        let plain = suite(name.strip_suffix("+and").unwrap());
        for (prompt, plain) in changed.prompts.iter().zip(&plain.prompts) {
            assert_eq!(prompt.relations, plain.relations);
            let scene = Scene::parse(&prompt.prompt).unwrap();
            assert!(scene.relations.is_empty());
            let objects: Vec<&str> = scene.objects.iter().map(|o| o.phrase.as_str()).collect();
            assert_eq!(objects, prompt.objects);
        }
    }
    let message = sets::open("psg-three+and").unwrap_err().to_string();
    assert!(message.contains("psg3_000"), "{message}");
}

/// Of one's own prompts, names are whole words, and articles, numbers and weights stay with theirs.
#[test]
fn and_joins_whole_names() {
    let folder = tempfile::tempdir().unwrap();
    let changed = |text: &str| {
        let path = folder.path().join("own.jsonl");
        std::fs::write(&path, text).unwrap();
        sets::open(&format!("{}+and", path.display()))
    };
    let given = r#", "relation": "left of", "object_a": "dog", "object_b": "cat""#;
    for (prompt, more, expected) in [
        (
            "a cartoon of a car to the left of a dog",
            "",
            "a cartoon of a car and a dog",
        ),
        ("a car at the location left of a cat", "", "a car and a cat"),
        ("three dogs left of two cats", "", "three dogs and two cats"),
        (
            "a (red:1.2) dog left of the 3 cats, [oil painting]",
            "",
            "a (red:1.2) dog and the 3 cats, [oil painting]",
        ),
        ("dog left of cat", "", "dog and cat"),
        ("two cats above my car", "", "two cats and my car"),
        ("a dog left of a dog", "", "a dog and a dog"),
        // Read by no rule, and named.
        ("a dog facing left next to a cat", given, "a dog and a cat"),
    ] {
        let suite = changed(&format!(r#"{{"prompt": "{prompt}"{more}}}"#)).unwrap();
        assert_eq!(suite.prompts[0].prompt, expected);
    }
    for prompt in [
        "(a dog:1.3) left of (a cat:1.2)",
        "To the left of a dog is a cat",
        "a dog on the left and a cat on the right",
        "a dog left of a pair of cats",
    ] {
        let message = changed(&format!(r#"{{"prompt": "{prompt}"}}"#))
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("which cannot be done in line-00001"),
            "{message}"
        );
    }
}

/// A part of a set has whole pairs.
#[test]
fn a_thinned_set_keeps_pairs_together() {
    let ids = |suite: &Suite| Vec::from_iter(suite.prompts.iter().map(|p| p.prompt_id.clone()));
    let mut thin = suite("ots-objects");
    thin.thin(100, None);
    assert_eq!(ids(&thin).len(), 12);
    assert_eq!(ids(&thin)[2..4], ["objects_0161_ab", "objects_0161_ba"]);
    // In VISOR the halves of a pair are apart: 0 with 3, 1 with 2.
    let mut thin = suite("visor");
    thin.thin(2, Some(4));
    let expected = ["visor_00000", "visor_00003", "visor_00005", "visor_00006"];
    assert_eq!(ids(&thin), expected);
    assert!(
        thin.prompts
            .iter()
            .all(|prompt| prompt.counterpart.is_some())
    );
    thin.thin(1, Some(1));
    assert_eq!(thin.prompts[0].counterpart, None);
    // No relation is lost.
    for every in 1..=12 {
        let mut thin = suite("spatialbench-uc");
        thin.thin(every, None);
        let mut stated = [
            Relation::LeftOf,
            Relation::RightOf,
            Relation::Above,
            Relation::Below,
        ]
        .map(|r| (r, 0));
        for prompt in &thin.prompts {
            for (relation, count) in &mut stated {
                *count += usize::from(prompt.relations[0].relation == *relation);
            }
        }
        let counts = stated.map(|(_, count)| count);
        let [least, most] = [counts.iter().min(), counts.iter().max()].map(Option::unwrap);
        assert!(
            *least > 0 && 3 * least >= *most,
            "every {every}: {counts:?}"
        );
    }
    let mut all = suite("psg-three");
    all.thin(1, None);
    assert_eq!(all, suite("psg-three"));
}
