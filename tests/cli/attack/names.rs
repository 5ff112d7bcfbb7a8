//! Names and texts that write on the terminal, or that are as long as a book.

use super::Folder;
use crate::program;

/// Where a name can be given, for `NAME`.
const PLACES: &[&[&str]] = &[
    &["info", "NAME"],
    &["generate", "a dog", "--checkpoint", "NAME"],
    &[
        "generate",
        "a dog",
        "--config",
        "NAME",
        "--checkpoint",
        "NAME",
    ],
    &["generate", "a dog", "--vae", "NAME"],
    &["generate", "a dog", "--lora", "NAME"],
    &["generate", "a dog", "--init-image", "NAME"],
    &["generate", "--again", "NAME"],
    &["generate", "a dog", "--scheduler", "NAME"],
    &["generate", "a dog", "--size", "NAME"],
    &["generate", "a dog", "--seeds", "NAME"],
    &["generate", "a dog", "--guide", "NAME"],
    &["generate", "a dog", "--relation", "NAME"],
    &["generate", "a dog", "--device", "NAME"],
    &["generate", "a dog", "--NAME"],
    &["check", "--manifest", "NAME"],
    &["check", "--records", "NAME"],
    &["suites", "NAME"],
    &["run", "NAME", "--out", "out"],
    &["report", "NAME"],
    &["merge", "NAME", "--out", "out"],
    &["score", "pse", "NAME"],
    &["parse", "a dog", "--checkpoint", "NAME"],
    &["NAME"],
];

#[test]
fn messages_are_short_and_leave_the_terminal_alone() {
    let folder = Folder::new();
    // Arguments may have 128 KiB.
    let long = "a/".repeat(50_000);
    for place in PLACES {
        for name in [
            "\u{1b}[2Jevil",
            "\u{9b}2J\u{7}\u{202e}live",
            "x\ny\rz\u{8}",
            &long,
        ] {
            let args: Vec<String> = place.iter().map(|arg| arg.replace("NAME", name)).collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            folder.refuses(&args, &[]);
        }
    }
}

/// Numbers that would take for ever.
#[test]
fn there_are_limits_to_what_is_asked_for() {
    let folder = Folder::new();
    for (args, part) in [
        (&["--best-of", "1000000"][..], "at most 10000"),
        (&["--best-of", "18446744073709551615"], "at most 10000"),
        (&["--clip-skip", "18446744073709551615"], "clip skip"),
        (&["--size", "1000000x1000000"], "is not a size"),
        (&["--steps", "4294967295"], "steps"),
    ] {
        let command = [&["generate", "a dog to the left of a cat"], args].concat();
        folder.refuses(&command, &[part]);
    }
}

/// What is written about a picture whose name is an escape sequence.
#[test]
fn so_do_places_for_pictures() {
    let folder = Folder::new();
    for name in ["\u{1b}[2Jevil.png", "\u{1b}[2Jfolder/x.png"] {
        let output = folder.run(&["generate", "a dog", "--steps", "1", "-o", name]);
        super::sound(&["generate", name], &output);
        assert!(output.status.success());
        assert!(folder.path().join(name).exists());
    }
    let info = folder.run(&["info", "\u{1b}[2Jevil.png"]);
    super::sound(&["info"], &info);
    assert!(info.status.success());
}

/// File systems allow names that JSON does not.
#[cfg(target_os = "linux")]
#[test]
fn names_need_not_be_utf_8() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;

    let folder = Folder::new();
    let run = |args: &[&OsStr]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_prepose"));
        command.args(args).current_dir(folder.path());
        let output = command.output().unwrap();
        let message = super::sound(&["names that are not UTF-8"], &output);
        (output.status.code(), message, program::stdout(&output))
    };
    let odd = OsStr::from_bytes(b"odd-\xff.png");
    let odd_folder = OsStr::from_bytes(b"odd-\xff");
    let text = OsStr::new;
    let generate = ["-q", "generate", "a dog", "--steps", "2", "--json"].map(text);
    let (code, message, line) = run(&[&generate[..], &[text("-o"), odd]].concat());
    assert_eq!(code, Some(0), "{message}");
    assert!(line.contains("odd-\u{fffd}.png"), "{line}");
    assert!(folder.path().join(odd).is_file());
    let (code, message, line) = run(&[text("info"), odd, text("--json")]);
    assert_eq!(code, Some(0), "{message}");
    assert!(line.contains("\"request\""), "{line}");

    // Commands that keep how they were called.
    let methods = OsStr::from_bytes(b"methods-\xff.toml");
    std::fs::write(
        folder.path().join(methods),
        "[[method]]\nname = \"plain\"\n",
    )
    .unwrap();
    let options = [
        "--limit", "1", "--seeds", "0", "--steps", "1", "--size", "64",
    ];
    let more = ["--checker", "none", "--out", "run", "--methods"];
    let options: Vec<&OsStr> = [&options[..], &more]
        .concat()
        .into_iter()
        .map(text)
        .collect();
    let begin = ["run", "ots-objects"].map(text);
    let (code, message, _) = run(&[&begin[..], &options[..], &[methods]].concat());
    assert_eq!(code, Some(0), "{message}");
    let kept = std::fs::read_dir(folder.path().join("run/provenance")).unwrap();
    let kept = kept.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    assert!(kept.collect::<String>().contains("methods-\u{fffd}.toml"));
    let options = [
        "bench", "sheet", "-c", "toybox", "--only", "unet", "--budget", "1ms", "-o",
    ];
    let (code, message, _) = run(&[&options.map(text)[..], &[odd_folder]].concat());
    assert_eq!(code, Some(0), "{message}");

    // The picture could not say what it was made from.
    for option in ["--init-image", "--vae", "--lora", "--config"] {
        let (code, message, _) = run(&[&generate[..], &[text(option), odd]].concat());
        assert_eq!(code, Some(2), "{option}: {message}");
    }
    let (_, message, _) = run(&[&generate[..], &[text("--init-image"), odd]].concat());
    assert!(message.contains("not UTF-8"), "{message}");
}
