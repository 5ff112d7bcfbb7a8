//! Wrong input.

use super::made::{finished, made};
use super::{lines, write};
use crate::program::refuses;

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    finished(&at.join("run"));
    refuses(at, &["report"], &["<RUN>"]);
    refuses(at, &["report", "nowhere"], &["nowhere", "not there"]);
    refuses(
        at,
        &["report", "run/run.json"],
        &["run/run.json", "give the folder"],
    );
    refuses(at, &["report", "."], &["one in run below it"]);
    refuses(
        at,
        &["report", "run", "--bootstrap", "0"],
        &["--bootstrap is 0"],
    );
    refuses(
        at,
        &["report", "run", "--labels", "missing.json"],
        &["missing.json"],
    );
    write(at.join("taken"), "a file");
    refuses(at, &["report", "run", "-o", "taken"], &["taken"]);
    write(
        at.join("half/psg/manifest.jsonl"),
        "{\"sample_id\": \"x\"\n",
    );
    refuses(at, &["report", "half"], &["psg/manifest.jsonl", "line 1"]);
    write(at.join("odd/run.json"), "{\"methods\": 3}");
    refuses(at, &["report", "odd"], &["run.json", "methods"]);
    write(
        at.join("empty/run.json"),
        "{\"methods\": [{\"name\": \"psg\"}], \"prompts\": 1, \"seeds\": [0]}",
    );
    refuses(at, &["report", "empty"], &["no picture is finished yet"]);
    let mut other = made("psg", 0, 0).manifest;
    other["image_path"] = "other.png".into();
    let twice = lines(&[made("psg", 0, 0).manifest, other]);
    write(at.join("twice/manifest.jsonl"), twice);
    refuses(
        at,
        &["report", "twice"],
        &["manifest.jsonl", "is in it twice"],
    );
    let broken = made("psg", 0, 0)
        .record
        .to_string()
        .replace("PASS", "MAYBE");
    write(at.join("verdict/eval/per_sample.jsonl"), broken);
    refuses(
        at,
        &["report", "verdict"],
        &["eval/per_sample.jsonl", "line 1", "MAYBE"],
    );
    // Unless it is root's.
    #[cfg(unix)]
    {
        use std::fs;
        use std::os::unix::fs::PermissionsExt;
        let locked = at.join("locked");
        fs::create_dir(&locked).unwrap();
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
        if fs::write(locked.join("x"), "").is_err() {
            refuses(
                at,
                &["report", "run", "-o", "locked"],
                &["locked", "another with -o"],
            );
        }
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o755)).unwrap();
    }
}
