//! What must hold in every set: names, objects, relations and counterparts fit the texts.

use std::collections::{BTreeMap, HashMap, HashSet};

use prepose::prompt::neutral::{neutral, swapped};
use prepose::prompt::scene::{Relation, Scene};
use prepose::suite::SuitePrompt;
use prepose::suite::sets::{SETS, Set};

use super::suite;

/// Names are unique and fit for files, objects are in the order of mention, and counterparts are mutual.
#[test]
fn every_set_is_sound() {
    for set in SETS {
        let suite = set.suite();
        let by_id: HashMap<&str, &SuitePrompt> = (suite.prompts.iter())
            .map(|prompt| (prompt.prompt_id.as_str(), prompt))
            .collect();
        assert_eq!(by_id.len(), suite.prompts.len(), "{}", set.name);
        for prompt in &suite.prompts {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            assert!(prompt.prompt_id.chars().all(plain), "{prompt:?}");
            // An instruction need not name what is in the picture.
            let named = prompt.edit.is_none();
            let mut rest = prompt.prompt.as_str();
            for object in prompt.objects.iter().filter(|_| named) {
                let (_, after) = rest
                    .split_once(object.as_str())
                    .unwrap_or_else(|| panic!("{object:?} in {prompt:?}"));
                rest = after;
            }
            if let Some(other) = &prompt.counterpart {
                let other = by_id[other.as_str()];
                assert_eq!(other.counterpart.as_ref(), Some(&prompt.prompt_id));
                let mut others = other.objects.clone();
                if named {
                    others.reverse();
                }
                assert_eq!(prompt.objects, others);
            }
        }
    }
}

/// What each set says of its prompts is what is read from their texts.
#[test]
fn every_prompt_reads_as_its_set_says() {
    for set in SETS {
        let mut wrong = Vec::new();
        let prompts = set.suite().prompts.into_iter();
        for mut prompt in prompts.filter(|prompt| prompt.edit.is_none()) {
            // The sides are what these texts do not say.
            if set.name == "ots-correctness" {
                prompt.relations.clear();
            }
            let scene = match Scene::parse(&prompt.prompt) {
                Ok(scene) => scene,
                Err(error) => {
                    wrong.push(format!("{:?}: {error}", prompt.prompt));
                    continue;
                }
            };
            let objects: Vec<String> = (scene.objects.iter())
                .map(|object| object.phrase.clone())
                .collect();
            let relations = scene.relations;
            if (&objects, &relations) != (&prompt.objects, &prompt.relations) {
                wrong.push(format!("{:?} as {objects:?} {relations:?}", prompt.prompt));
            }
        }
        let few = &wrong[..wrong.len().min(10)];
        assert!(
            wrong.is_empty(),
            "{}: {} prompts, such as {few:#?}",
            set.name,
            wrong.len()
        );
    }
}

/// Every pair without a relation has a neutral form and one in the other order, which its counterpart is.
#[test]
fn neutral_pairs_can_be_swapped_and_made_neutral() {
    let pairs = ["ots-objects", "ots-bench", "ots-correctness"];
    let is_one = |set: &&Set| pairs.iter().any(|name| set.name.starts_with(name));
    for set in SETS.iter().filter(is_one) {
        let suite = set.suite();
        let texts: HashMap<&str, &str> = (suite.prompts.iter())
            .map(|prompt| (prompt.prompt_id.as_str(), prompt.prompt.as_str()))
            .collect();
        let mut neutrals: BTreeMap<String, usize> = BTreeMap::new();
        for prompt in &suite.prompts {
            let other = texts[prompt.counterpart.as_deref().unwrap()];
            assert_eq!(swapped(&prompt.prompt).unwrap(), other);
            let text = neutral(&prompt.prompt).unwrap();
            assert_eq!(text, neutral(other).unwrap());
            for object in &prompt.objects {
                let words: HashSet<&str> = text.split([' ', '.', ',']).collect();
                assert!(!words.contains(object.as_str()), "{prompt:?}: {text:?}");
            }
            *neutrals.entry(text).or_default() += 1;
        }
        let without_actions = set.name.starts_with("ots-objects");
        assert!(
            !without_actions || neutrals.len() <= 12,
            "{}: {neutrals:#?}",
            set.name
        );
    }
}

/// OTS-Bench has as many prompts of each kind as its table 10 says; of what is judged aligned and reversed, as many cases.
#[test]
fn ots_bench_has_the_numbers_of_table_10() {
    let count = |set: &str, tags: &[&str]| {
        let prompts = suite(set).prompts;
        let has = |prompt: &&SuitePrompt| {
            let tagged = |tag: &&str| prompt.tags.iter().any(|one| one == tag);
            tags.iter().all(tagged)
        };
        prompts.iter().filter(has).count()
    };
    for (tag, prompts, edits) in [
        ("human-human", 500, 500),
        ("animal-animal", 300, 300),
        ("object-object", 300, 300),
        ("human-animal", 200, 0),
        ("human-object", 200, 0),
        ("animal-object", 200, 0),
    ] {
        assert_eq!(count("ots-bench", &[tag]), prompts, "{tag}");
        assert_eq!(count("ots-edit", &[tag]), edits, "{tag}");
        for order in ["aligned", "reverse"] {
            assert_eq!(count("ots-edit-correctness", &[tag, order]), edits, "{tag}");
        }
    }
    assert_eq!(count("ots-bench", &[]), 1700);
    assert_eq!(count("ots-bench", &["directed"]), 100);
    assert!(count("ots-bench", &["action-of-ours"]) > 100);
    assert_eq!(count("ots-correctness", &["aligned"]), 400);
    assert_eq!(count("ots-correctness", &["reverse"]), 400);
    assert_eq!(count("ots-correctness", &["aligned", "printed"]), 6);
}

/// A case of correctness has the same sides in both orders, and the same bindings.
#[test]
fn reversed_cases_mean_the_same() {
    for set in ["ots-correctness", "ots-edit-correctness"] {
        for pair in suite(set).prompts.chunks(2) {
            let [aligned, reverse] = pair else {
                panic!("{set} has pairs")
            };
            assert_eq!(
                (&*aligned.tags[0], &*reverse.tags[0]),
                ("aligned", "reverse")
            );
            assert_eq!(swapped(&aligned.prompt).unwrap(), reverse.prompt);
            assert_eq!(aligned.edit, reverse.edit);
            let left = |prompt: &SuitePrompt| {
                let stated = prompt.relations.first()?;
                Some((prompt.objects[stated.subject].clone(), stated.relation))
            };
            assert_eq!(left(aligned), left(reverse));
        }
    }
}

/// Relations by the benchmarks' names and by prepose's are the same ones.
#[test]
fn relations_are_named_as_in_the_records() {
    let prompt = &suite("spatialbench-uc").prompts[0];
    assert_eq!(prompt.relations[0].relation, Relation::LeftOf);
    assert!(
        serde_json::to_string(prompt)
            .unwrap()
            .contains("\"left_of\"")
    );
}
