//! Files of one's own that are read.

use prepose::suite::sets;
use prepose::suite::{Suite, SuitePrompt};

use super::{original, suite};

/// A file with this ending and content, opened.
pub fn open(ending: &str, content: impl AsRef<[u8]>) -> Result<Suite, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("mine.{ending}"));
    std::fs::write(&path, content).unwrap();
    sets::open(path.to_str().unwrap()).map_err(|error| error.to_string())
}

/// Id, objects and relations in one line a prompt.
#[track_caller]
fn reads(ending: &str, content: impl AsRef<[u8]>, expected: &[&str]) -> Suite {
    let suite = open(ending, content).unwrap();
    let line = |prompt: &SuitePrompt| {
        let mut line = format!("{}: {}", prompt.prompt_id, prompt.objects.join(", "));
        for stated in &prompt.relations {
            let (a, b) = stated.two().unwrap();
            line += &format!("; {a} {} {b}", stated.relation);
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
    let tagged = reads(
        "csv",
        "prompt,tags,neutral,reverse\na dog left of a cat,pets; indoors;,two pets,\na cat,,,\n",
        &["line-00002: dog, cat; 0 left of 1", "line-00003: cat"],
    );
    assert_eq!(tagged.prompts[0].tags, ["pets", "indoors"]);
    assert!(tagged.prompts[1].tags.is_empty());
    // A quotation mark within a field is one; at the beginning it opens a field of several lines.
    reads(
        "csv",
        "prompt\n\
         a 5\" tablet left of a cup\n\
         a dog left of a cat\n\
         a 7\" phone left of a cup\n\
         \"a \"\"big\"\" car,\na bus\"\n\
         a cow left of a pig\n",
        &[
            "line-00002: tablet, cup; 0 left of 1",
            "line-00003: dog, cat; 0 left of 1",
            "line-00004: phone, cup; 0 left of 1",
            "line-00005: big car, bus",
            "line-00007: cow, pig; 0 left of 1",
        ],
    );
    // What a prompt ends with is what it asks for.
    reads(
        "txt",
        "a [dog:cat:5] left of a car",
        &["line-00001: cat, car; 0 left of 1"],
    );
    // Of a composed prompt it is the first part; what is given is about all of it where that part does not name it.
    reads(
        "jsonl",
        concat!(
            r#"{"prompt": "a dog left of a cat AND a bird :0.5"}"#,
            "\n",
            r#"{"prompt": "a dog AND a cat", "relation": "left_of", "object_a": "dog", "object_b": "cat"}"#,
            "\n",
            r#"{"prompt": "a dog near a cat AND a dog", "relation": "left_of", "object_a": "dog", "object_b": "cat"}"#,
            "\n",
            r#"{"prompt": "a dog near a cat AND a dog", "objects": ["dog", "cat"], "relations": [{"relation": "left_of", "a": 0, "b": 1}]}"#,
        ),
        &[
            "line-00001: dog, cat; 0 left of 1",
            "line-00002: dog, cat; 0 left of 1",
            "line-00003: dog, cat; 0 left of 1",
            "line-00004: dog, cat; 0 left of 1",
        ],
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
