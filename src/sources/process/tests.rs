//! Makers that are shell scripts, and do what they should not.

use std::sync::atomic::Ordering;

use super::*;
use crate::{Outcome, Refusal};

fn jobs(count: usize) -> Vec<Job> {
    let job = |number: usize| Job {
        name: format!("job{number}"),
        prompt_id: format!("p{number}"),
        prompt: "a \"cup\"\nof tea".into(),
        seed: number as u64,
        number: 0,
        start: None,
    };
    (0..count).map(job).collect()
}

const HELLO: &str = r#"echo '{"type":"hello","protocol":1,"name":"sh","at_once":3}'; "#;
/// Reads a job: its id is in $id, its folder in $out.
const READ: &str = r#"next() { read -r line || exit 0; id=$(printf "%s\n" "$line" | sed 's/.*"id":"\([^"]*\)".*/\1/'); out=$(printf "%s\n" "$line" | sed 's/.*"out":"\([^"]*\)".*/\1/'); }; "#;
/// Makes the picture of $id.
const MAKE: &str = r#"make() { printf "%s" "$id" > "$out/$id.png"; echo "{\"type\":\"done\",\"id\":\"$id\",\"path\":\"$id.png\"}"; }; "#;

fn run(script: &str, count: usize) -> (Vec<(usize, Outcome)>, Result<(), SourceError>) {
    // As long as it takes: the machine may be busy.
    run_with(script, count, Patience::default())
}

fn run_with(
    script: &str,
    count: usize,
    patience: Patience,
) -> (Vec<(usize, Outcome)>, Result<(), SourceError>) {
    let script = format!("{READ}{MAKE}{script}");
    let stop = Arc::new(AtomicBool::new(false));
    let mut got = Vec::new();
    let mut process = match Process::start(&script, Wishes::default(), patience, stop) {
        Ok(process) => process,
        Err(error) => return (got, Err(error)),
    };
    let result = process.fetch(&jobs(count), &mut |index, outcome| {
        got.push((index, outcome));
        Ok(())
    });
    (got, result)
}

fn fails(script: &str) -> String {
    let (_, result) = run(script, 2);
    result.unwrap_err().to_string()
}

#[test]
fn pictures_come_in_any_order() {
    let script = format!(
        "{HELLO} next; a=$id; next; b=$id; id=$b; make; id=$a; make; while next; do make; done"
    );
    let (got, result) = run(&script, 5);
    result.unwrap();
    let order: Vec<usize> = got.iter().map(|(index, _)| *index).collect();
    assert_eq!(order, [1, 0, 2, 3, 4]);
    for (index, outcome) in got {
        let Outcome::Picture(file) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(file.bytes, format!("job{index}").as_bytes());
    }
}

#[test]
fn a_maker_that_dies_is_started_again_and_nothing_is_made_twice() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    // Each makes two, and ends.
    let script = format!(
        "{HELLO} for i in 1 2; do next; echo $id >> {0}; make; done; echo broken >&2; exit 3",
        log.display()
    );
    let (got, result) = run(&script, 5);
    result.unwrap();
    assert_eq!(got.len(), 5);
    let made = std::fs::read_to_string(&log).unwrap();
    let mut made: Vec<&str> = made.lines().collect();
    made.sort_unstable();
    assert_eq!(made, ["job0", "job1", "job2", "job3", "job4"]);
    // One that never makes it is given up.
    let error = fails(&format!("{HELLO} next; echo out of luck >&2; exit 3"));
    assert!(error.contains("the maker ended (exit status: 3) and had 2 pictures to make; the end of what it wrote on standard error:\nout of luck"), "{error}");
}

#[test]
fn refusals_are_outcomes_and_errors_are_told() {
    let refuse = r#"next; echo "{\"type\":\"error\",\"id\":\"$id\",\"code\":\"refused\",\"message\":\"no\"}"; next; make; next"#;
    let (got, result) = run(&format!("{HELLO} {refuse}"), 2);
    result.unwrap();
    assert_eq!(
        got[0].1,
        Outcome::Refused(Refusal {
            code: "refused".into(),
            message: "no".into()
        })
    );
    let oom = r#"next; echo "{\"type\":\"error\",\"id\":\"$id\",\"code\":\"oom\",\"message\":\"too large\"}"; next"#;
    assert_eq!(
        fails(&format!("{HELLO} {oom}")),
        "the maker could not make the picture of p0 with seed 0 (oom): too large"
    );
}

#[test]
fn what_is_no_answer_is_shown() {
    for (script, wanted) in [
        (
            "echo Loading…; sleep 1000",
            "wrote \"Loading…\" on its standard output, which is not JSON",
        ),
        (
            "echo '{\"id\": 1}'; sleep 1000",
            "which is not {\"type\": \"hello\"",
        ),
        (
            "echo '{\"type\":\"hello\",\"protocol\":9}'",
            "only protocol 1 is known",
        ),
        (
            "exit 127",
            "the maker ended (exit status: 127) and was to say hello; it wrote nothing",
        ),
    ] {
        let error = fails(script);
        assert!(error.contains(wanted), "{error}");
    }
    for (script, wanted) in [
        (
            "next; echo 50 percent",
            "wrote \"50 percent\" on its standard output, which is not an answer",
        ),
        (
            "next; make; make",
            "about a picture that it has answered for already",
        ),
        (
            "next; echo '{\"id\":\"x\",\"path\":\"x\"}'",
            "about no picture that it was asked for",
        ),
        ("next; echo '{\"path\":\"x\"}'", "does not say in \"id\""),
        ("next; echo \"{\\\"id\\\":\\\"$id\\\"}\"", "has no \"path\""),
        (
            "next; echo \"{\\\"id\\\":\\\"$id\\\",\\\"path\\\":\\\"/etc/passwd\\\"}\"",
            "not in the folder that the job names",
        ),
        (
            "next; echo \"{\\\"id\\\":\\\"$id\\\",\\\"path\\\":\\\"no.png\\\"}\"",
            "which cannot be read",
        ),
    ] {
        // It would go on; it is not asked to.
        let error = fails(&format!("{HELLO} {script}; sleep 1000"));
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn silence_and_a_request_to_stop_end_it() {
    let short = Patience {
        picture: Duration::from_millis(300),
        ..Patience::default()
    };
    let (_, result) = run_with(&format!("{HELLO} next; sleep 1000"), 1, short);
    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("said nothing for 0 s while it had 1 picture to make"),
        "{error}"
    );
    let stop = Arc::new(AtomicBool::new(false));
    let script = format!("{HELLO} sleep 1000");
    let mut process = Process::start(
        &script,
        Wishes::default(),
        Patience::default(),
        stop.clone(),
    )
    .unwrap();
    assert_eq!(
        (process.at_once(), process.hello().name.as_deref()),
        (3, Some("sh"))
    );
    stop.store(true, Ordering::Relaxed);
    let result = process.fetch(&jobs(1), &mut |_, _| Ok(()));
    assert!(matches!(result, Err(SourceError::Stopped)));
}

#[test]
fn a_picture_to_begin_with_is_given_to_makers_that_take_one() {
    // It answers with the picture that it is to change, and says how much of it on standard error.
    let script = r#"echo '{"type":"hello","protocol":1,"edits":true}'; next
        image=$(printf "%s\n" "$line" | sed 's/.*"image":"\([^"]*\)".*/\1/')
        cp "$image" "$out/$id.png"
        case "$line" in *'"strength":0.5'*) ;; *) exit 4 ;; esac
        echo "{\"type\":\"done\",\"id\":\"$id\",\"path\":\"$id.png\"}""#;
    let stop = Arc::new(AtomicBool::new(false));
    let script = format!("{READ}{script}");
    let start = || {
        Process::start(
            &script,
            Wishes::default(),
            Patience::default(),
            stop.clone(),
        )
    };
    let mut process = start().unwrap();
    assert_eq!(process.editing(), Editing::Also);
    let mut jobs = jobs(1);
    let picture = Start::new(b"the picture".to_vec(), 0.5);
    jobs[0].start = Some(picture.clone());
    let mut got = Vec::new();
    let result = process.fetch(&jobs, &mut |_, outcome| {
        got.push(outcome);
        Ok(())
    });
    result.unwrap();
    let [Outcome::Picture(file)] = got.as_slice() else {
        panic!("{got:?}")
    };
    assert_eq!(file.bytes, *picture.png);
    assert_eq!(file.origin.start.as_ref(), Some(&picture.sha256));
    // Nothing is left lying about.
    let left = std::fs::read_dir(process.folder.path()).unwrap();
    assert_eq!(left.count(), 0);
}
