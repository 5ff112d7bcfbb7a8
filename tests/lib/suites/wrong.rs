//! Files of one's own that are refused.

use std::io::Write;

use prepose::suite::sets;

use super::files::open;

#[track_caller]
fn refuses(ending: &str, content: impl AsRef<[u8]>, parts: &[&str]) {
    let message = open(ending, content).expect_err("it is wrong");
    assert!(message.contains("mine."), "{message}");
    assert!(!message.contains('\n'), "{message}");
    for part in parts {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
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
    refuses("txt", "a dog :101 AND a cat", &["line 1", "weight 101"]);
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
            &["line 2", "\"a\"", "already in line 1"],
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
            &["left_off", "not a relation", "mean \"left of\""],
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
    for column in [
        "objects",
        "relations",
        "counterfactual",
        "difficulty_tags",
        "edit",
        "boxes",
    ] {
        refuses(
            "csv",
            format!("prompt,{column}\na dog,\n"),
            &["line 1", &format!("{column:?} is read only in .jsonl")],
        );
    }
    // What CSV does not read is not suggested.
    assert!(open("csv", "prompt,edits\na dog,2\n").is_ok());
    refuses("csv", "prompt,tag\na dog,a\n", &["mean \"tags\""]);
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
        "prompt\na dog\ra cat\n",
        &["line 2", "carriage return"],
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
