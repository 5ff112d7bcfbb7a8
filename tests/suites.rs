//! The sets of prompts against what their authors released, and files of one's own, wrong ones first.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use prepose::prompt::neutral::{neutral, swapped};
use prepose::prompt::scene::{Relation, Scene};
use prepose::suite::sets::{self, SETS};
use prepose::suite::{Suite, SuitePrompt, SuiteRelation};
use sha2::{Digest, Sha256};

fn sha256(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn original(name: &str) -> String {
    sets::find(name).unwrap().original().unwrap()
}

fn suite(name: &str) -> Suite {
    sets::open(name).unwrap()
}

/// The released files, to the byte.
#[test]
fn originals_are_the_released_files() {
    for (name, hash) in [
        (
            "spatialbench-uc",
            "e13c0ed8f962acb7fed702c689e384184759f17317373bce0ef633667c244d8d",
        ),
        (
            "visor",
            "ebe9b1199fd3c00aeb32f04b17d947319f40eb6edb87e97621277e5b61379048",
        ),
    ] {
        assert_eq!(sha256(&original(name)), hash, "{name}");
    }
    let Some(folder) = std::env::var_os("PREPOSE_SHARED_DATA") else {
        println!("skipped: PREPOSE_SHARED_DATA is not set");
        return;
    };
    let released = |file: &str| std::fs::read_to_string(Path::new(&folder).join(file)).unwrap();
    for (name, file) in [
        ("t2i-compbench-spatial", "t2i-compbench/spatial.txt"),
        ("t2i-compbench-3d", "t2i-compbench/3d_spatial.txt"),
        (
            "spatialbench-uc",
            "spatialbench-uc/data/prompts/v1.0.1/prompts.jsonl",
        ),
        ("visor", "visor/text_spatial_rel_phrases.json"),
    ] {
        assert!(original(name) == released(file), "{name}");
    }
    let metadata = released("geneval/prompts/evaluation_metadata.jsonl");
    let mut lines = metadata.lines().enumerate();
    let (first, _) = lines
        .clone()
        .find(|(_, line)| line.contains("\"position\", \"include\""))
        .unwrap();
    let position: String = lines
        .by_ref()
        .filter(|(_, line)| line.contains("\"tag\": \"position\""))
        .map(|(_, line)| format!("{line}\n"))
        .collect();
    assert!(original("geneval-position") == position);
    let id = &suite("geneval-position").prompts[0].prompt_id;
    assert_eq!(*id, format!("geneval_{first:05}"));
    for (name, file) in [
        ("t2i-compbench-spatial-val", "t2i-compbench/spatial_val.txt"),
        ("t2i-compbench-3d-val", "t2i-compbench/3d_spatial_val.txt"),
    ] {
        let texts: Vec<String> = suite(name).prompts.into_iter().map(|p| p.prompt).collect();
        let lines: Vec<String> = released(file)
            .lines()
            .map(|line| line.trim().to_owned())
            .filter(|line| !line.is_empty())
            .collect();
        assert_eq!(texts, lines, "{name}");
    }
}

#[test]
fn every_set_is_as_large_as_it_should_be() {
    let expected = [
        ("spatialbench-uc", 200, 4, 200),
        ("visor", 25_280, 4, 25_280),
        ("visor-5000", 5_000, 4, 0),
        ("geneval-position", 100, 4, 0),
        ("t2i-compbench-spatial", 1_000, 10, 0),
        ("t2i-compbench-spatial-val", 300, 10, 0),
        ("t2i-compbench-3d", 1_000, 10, 0),
        ("t2i-compbench-3d-val", 300, 10, 0),
        ("psg-three", 100, 4, 0),
        ("psg-four", 100, 4, 0),
        ("ots-objects", 1_056, 1, 1_056),
        ("ots-objects-vertical", 1_056, 1, 1_056),
        ("ots-bench", 1_700, 1, 1_700),
        ("ots-bench-vertical", 1_700, 1, 1_700),
    ];
    assert_eq!(expected.map(|row| row.0).to_vec(), sets::names());
    for (name, prompts, pictures, paired) in expected {
        let suite = suite(name);
        assert_eq!(suite.prompts.len(), prompts, "{name}");
        assert_eq!(suite.pictures_per_prompt, pictures, "{name}");
        let with = |prompt: &&SuitePrompt| prompt.counterpart.is_some();
        let with = suite.prompts.iter().filter(with).count();
        assert!(with >= paired, "{name}: {with} prompts have a counterpart");
    }
    let relations = |name: &str| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for prompt in suite(name).prompts {
            for stated in prompt.relations {
                *counts.entry(stated.relation.as_str()).or_default() += 1;
            }
        }
        Vec::from_iter(counts)
    };
    assert_eq!(
        relations("t2i-compbench-spatial"),
        [
            ("above", 177),
            ("below", 186),
            ("left of", 181),
            ("near", 272),
            ("right of", 184)
        ]
    );
    assert_eq!(
        relations("t2i-compbench-3d"),
        [("behind", 673), ("in front of", 327)]
    );
    let all_four = |each| ["above", "below", "left of", "right of"].map(|name| (name, each));
    assert_eq!(relations("spatialbench-uc"), all_four(50));
    assert_eq!(relations("visor"), all_four(6_320));
}

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
            let mut rest = prompt.prompt.as_str();
            for object in &prompt.objects {
                let (_, after) = rest
                    .split_once(object.as_str())
                    .unwrap_or_else(|| panic!("{object:?} in {prompt:?}"));
                rest = after;
            }
            if let Some(other) = &prompt.counterpart {
                let other = by_id[other.as_str()];
                assert_eq!(other.counterpart.as_ref(), Some(&prompt.prompt_id));
                let reversed: Vec<_> = other.objects.iter().rev().cloned().collect();
                assert_eq!(prompt.objects, reversed);
            }
        }
    }
}

/// What each set says of its prompts is what is read from their texts.
#[test]
fn every_prompt_reads_as_its_set_says() {
    for set in SETS {
        let mut wrong = Vec::new();
        for prompt in set.suite().prompts {
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
            let relations: Vec<SuiteRelation> = (scene.relations.iter())
                .map(|stated| SuiteRelation {
                    relation: stated.relation,
                    a: stated.subject,
                    b: stated.objects[0],
                })
                .collect();
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
    for set in SETS.iter().filter(|set| set.name.starts_with("ots-")) {
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
        println!("{}: {neutrals:#?}", set.name);
        assert!(neutrals.len() <= 12, "{}: {neutrals:#?}", set.name);
    }
}

#[test]
fn psg_prompts_follow_the_papers_examples() {
    let three = &suite("psg-three").prompts;
    let four = &suite("psg-four").prompts;
    for prompt in three.iter().chain(four) {
        assert_eq!(prompt.relations.len(), 2);
        let different: HashSet<&String> = prompt.objects.iter().collect();
        assert_eq!(different.len(), prompt.objects.len());
    }
    let texts: HashSet<&str> = three
        .iter()
        .chain(four)
        .map(|p| p.prompt.as_str())
        .collect();
    assert_eq!(texts.len(), 200);
    let places = |prompt: &SuitePrompt| prompt.relations.iter().map(|r| (r.a, r.b)).collect();
    assert!(
        three
            .iter()
            .all(|p| vec![(0, 1), (0, 2)] == Vec::from_iter::<Vec<_>>(places(p)))
    );
    assert!(
        four.iter()
            .all(|p| vec![(0, 1), (2, 3)] == Vec::from_iter::<Vec<_>>(places(p)))
    );
}

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

/// A file with this ending and content, opened.
fn open(ending: &str, content: impl AsRef<[u8]>) -> Result<Suite, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("mine.{ending}"));
    std::fs::write(&path, content).unwrap();
    sets::open(path.to_str().unwrap()).map_err(|error| error.to_string())
}

#[track_caller]
fn refuses(ending: &str, content: impl AsRef<[u8]>, parts: &[&str]) {
    let message = open(ending, content).expect_err("it is wrong");
    assert!(message.contains("mine."), "{message}");
    assert!(!message.contains('\n'), "{message}");
    for part in parts {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

/// Id, objects and relations in one line a prompt.
#[track_caller]
fn reads(ending: &str, content: impl AsRef<[u8]>, expected: &[&str]) -> Suite {
    let suite = open(ending, content).unwrap();
    let line = |prompt: &SuitePrompt| {
        let mut line = format!("{}: {}", prompt.prompt_id, prompt.objects.join(", "));
        for SuiteRelation { relation, a, b } in &prompt.relations {
            line += &format!("; {a} {relation} {b}");
        }
        line
    };
    let lines: Vec<String> = suite.prompts.iter().map(line).collect();
    assert_eq!(lines, expected);
    suite
}

#[test]
fn files_of_ones_own() {
    let suite = reads(
        "txt",
        "a dog left of a cat\n\ntwo dogs and a red car \n  a cat right of a dog\nserenity\n",
        &[
            "line-00001: dog, cat; 0 left of 1",
            "line-00003: dogs, red car",
            "line-00004: cat, dog; 0 right of 1",
            "line-00005: serenity",
        ],
    );
    assert_eq!(suite.prompts[0].counterpart.as_deref(), Some("line-00004"));
    assert_eq!(
        (suite.name.as_str(), suite.pictures_per_prompt),
        ("mine", 4)
    );
    assert!(suite.version.starts_with("sha256:"), "{}", suite.version);

    reads(
        "jsonl",
        concat!(
            r#"{"prompt": "a dog left of a cat"}"#,
            "\n",
            r#"{"prompt_id": 7, "prompt": "a dog and a cat", "relation": "left_of", "object_a": "dog", "object_b": "cat"}"#,
            "\n",
            // The cat is mentioned first.
            r#"{"prompt_id": "x", "prompt": "a cat and a dog", "relation": "to the left of", "object_a": {"name": "dog"}, "object_b": "cat", "note": 1}"#,
            "\n",
            r#"{"prompt_id": "y", "prompt": "a dog facing left and a dog", "objects": ["dog", "dog"], "relations": [{"relation": "near", "a": 0, "b": 1}]}"#,
            "\n",
            r#"{"prompt_id": "z", "prompt": "a dog facing left", "objects": ["dog"], "relations": []}"#,
        ),
        &[
            "line-00001: dog, cat; 0 left of 1",
            "7: dog, cat; 0 left of 1",
            "x: cat, dog; 1 left of 0",
            "y: dog, dog; 0 near 1",
            "z: dog",
        ],
    );

    reads(
        "csv",
        "Prompt,prompt_id,relation,object_a,object_b,mood\n\
         a dog left of a cat,p1,,,,good\n\
         \"a dog, a cat and\na bird\",p2,,,,\n\
         a dog and a cat,p3,right of,dog,cat,bad\n",
        &[
            "p1: dog, cat; 0 left of 1",
            "p2: dog, cat, bird",
            "p3: dog, cat; 0 right of 1",
        ],
    );
    // What a prompt ends with is what it asks for.
    reads(
        "txt",
        "a [dog:cat:5] left of a car",
        &["line-00001: cat, car; 0 left of 1"],
    );
}

#[test]
fn marks_and_line_ends_of_other_systems_are_read() {
    let plain = open("txt", "a dog left of a cat\na cat\n").unwrap();
    let other = open("txt", "\u{feff}a dog left of a cat\r\na cat").unwrap();
    assert_eq!(plain.prompts, other.prompts);
    let plain = open("csv", "prompt\na dog\n").unwrap();
    let other = open("csv", "\u{feff}prompt\r\na dog\r\n\r\n").unwrap();
    assert_eq!(plain.prompts, other.prompts);
}

#[test]
fn sets_survive_being_written_and_read_again() {
    for name in [
        "spatialbench-uc",
        "geneval-position",
        "psg-four",
        "ots-bench",
    ] {
        let set = suite(name);
        let line = |prompt| serde_json::to_string(prompt).unwrap() + "\n";
        let text: String = set.prompts.iter().map(line).collect();
        assert_eq!(open("jsonl", text).unwrap().prompts, set.prompts, "{name}");
    }
    // The released schema is read as well.
    let released = open("jsonl", original("spatialbench-uc")).unwrap();
    assert_eq!(released.prompts, suite("spatialbench-uc").prompts);
    let first: String = original("spatialbench-uc").lines().take(1).collect();
    assert_eq!(open("jsonl", first).unwrap().prompts[0].counterpart, None);
}

#[test]
fn wrong_files() {
    refuses("txt", "", &["no prompts"]);
    refuses("txt", "\n \r\n", &["no prompts"]);
    refuses("json", "[]", &["jsonl", ".csv", ".txt"]);
    refuses("txt", b"a dog\na c\xe4t\n", &["line 2", "byte 4", "UTF-8"]);
    refuses("txt", b"\xff\xfea\0 \0", &["UTF-16", "UTF-8"]);
    refuses(
        "txt",
        "a dog\na dog facing left",
        &["line 2", "\"left\"", "object_a"],
    );
    refuses("txt", "a dog or a cat", &["line 1", "leaves open"]);
    refuses(
        "txt",
        "a dog between a cat and a car",
        &["between", "two relations"],
    );
    let missing = sets::open("no/such/file.csv").unwrap_err().to_string();
    assert!(missing.contains("no/such/file.csv"), "{missing}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folder.txt");
    std::fs::create_dir(&path).unwrap();
    let message = sets::open(path.to_str().unwrap()).unwrap_err().to_string();
    assert!(message.contains("cannot read"), "{message}");
}

#[test]
fn wrong_json() {
    let two = |second: &str| format!("{{\"prompt_id\": \"a\", \"prompt\": \"a dog\"}}\n{second}\n");
    for (second, parts) in [
        ("{\"prompt\": \"a dog\"", &["line 2", "column"][..]),
        ("[1]", &["line 2", "JSON object"]),
        ("{}", &["line 2", "no \"prompt\""]),
        ("{\"prompt\": \" \"}", &["line 2", "no \"prompt\""]),
        ("{\"promt\": \"a dog\"}", &["\"promt\"", "mean \"prompt\""]),
        ("{\"prompt\": [1]}", &["\"prompt\" is [1]", "a text"]),
        (
            "{\"prompt_id\": \"a\", \"prompt\": \"a cat\"}",
            &["line 2", "\"a\"", "line 1 already"],
        ),
        (
            "{\"prompt_id\": \"A\", \"prompt\": \"a cat\"}",
            &["letter case"],
        ),
        (
            "{\"prompt_id\": \"../a\", \"prompt\": \"a cat\"}",
            &["\"../a\"", "file names"],
        ),
        (
            "{\"prompt\": \"a dog and a cat\", \"relation\": \"left_off\", \"object_a\": \"dog\", \"object_b\": \"cat\"}",
            &["left_off", "no relation", "mean \"left of\""],
        ),
        (
            "{\"prompt\": \"a dog and a cat\", \"relation\": \"above\", \"object_a\": \"dog\"}",
            &["\"object_b\" is missing"],
        ),
        (
            "{\"prompt\": \"a dog and a cat\", \"relation\": \"above\", \"object_a\": \"dog\", \"object_b\": \"car\"}",
            &["\"car\" is not in the prompt"],
        ),
        (
            "{\"prompt\": \"a dog and a cat\", \"relation\": \"between\", \"object_a\": \"dog\", \"object_b\": \"cat\"}",
            &["between"],
        ),
        (
            "{\"prompt\": \"a dog and a cat\", \"objects\": [\"dog\", \"cat\"]}",
            &["\"relations\" is missing"],
        ),
        (
            "{\"prompt\": \"a dog and a cat\", \"objects\": [\"dog\"], \"relations\": [{\"relation\": \"above\", \"a\": 0, \"b\": 1}]}",
            &["0 and 1", "1 objects"],
        ),
        (
            "{\"prompt\": \"a dog and a cat\", \"objects\": [\"dog\"], \"relations\": [{\"relation\": \"above\", \"a\": -1}]}",
            &["left_of"],
        ),
    ] {
        refuses("jsonl", two(second), parts);
    }
}

#[test]
fn wrong_csv() {
    refuses(
        "csv",
        "text\na dog\n",
        &["line 1", "no column \"prompt\"", "text"],
    );
    refuses("csv", "promt\na dog\n", &["mean \"prompt\""]);
    refuses("csv", "prompt,prompt\na,b\n", &["two columns"]);
    refuses(
        "csv",
        "prompt\na dog, a cat\n",
        &["line 2", "2 fields", "quotation"],
    );
    refuses("csv", "prompt,mood\n,good\n", &["line 2", "no \"prompt\""]);
    refuses(
        "csv",
        "prompt\n\"a dog\na cat\n",
        &["line 2", "quotation mark"],
    );
    refuses(
        "csv",
        "prompt,relation\na dog,above\n",
        &["\"object_a\" is missing"],
    );
}

/// A line of 100 MB is refused after its first MiB.
#[test]
fn endless_lines() {
    let folder = tempfile::tempdir().unwrap();
    for ending in ["txt", "csv", "jsonl"] {
        let path = folder.path().join(format!("long.{ending}"));
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(b"prompt\n").unwrap();
        // A hole in the file reads as zeros and takes no room.
        file.set_len(100_000_000).unwrap();
        let message = sets::open(path.to_str().unwrap()).unwrap_err().to_string();
        let wanted = if ending == "jsonl" {
            "line 1"
        } else {
            "line 2"
        };
        assert!(message.contains(wanted), "{message}");
        if ending != "jsonl" {
            assert!(message.contains("longer than 1024 KiB"), "{message}");
        }
    }
}

fn prepose(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prepose"));
    command.args(args).env_remove("RUST_LOG").output().unwrap()
}

#[test]
fn the_command_lists_and_shows() {
    let text = |args: &[&str]| {
        let output = prepose(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let list = text(&["suites"]);
    for name in sets::names() {
        assert!(
            list.contains(&format!("\n{name} (")) || list.starts_with(name),
            "{name}"
        );
    }
    let lines = text(&["suites", "--json"]);
    let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(first["prompts"], 200);
    assert_eq!(first["relations"]["left_of"], 50);
    let shown = text(&["suites", "psg-three"]);
    let prompts: Vec<SuitePrompt> = (shown.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(prompts, suite("psg-three").prompts);
    let released = text(&["suites", "spatialbench-uc", "--original"]);
    assert!(released == original("spatialbench-uc"));

    for (args, part) in [
        (&["suites", "viser"][..], "`visor`"),
        (
            &["suites", "psg-four", "--original"],
            "spatialbench-uc, visor",
        ),
        (&["suites", "--original"], "SUITE"),
    ] {
        let output = prepose(args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(part), "{args:?}: {message}");
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
