//! Nothing of the data is passed over without a word.

use super::{png, told, write};
use crate::{Options, open};

fn given() -> Options {
    Options {
        caption: Some("a thing".into()),
        ..Options::default()
    }
}

#[cfg(unix)]
#[test]
fn links_to_folders_are_followed_once() {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    let (folder, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = &folder.path().join("data");
    write(&path.join("set1/a.png"), png(1));
    write(&folder.path().join("other/x.png"), png(2));
    write(&disk.path().join("set2/b.png"), png(3));
    write(&disk.path().join("set2/in/c.png"), png(4));
    write(&disk.path().join("run/images/0.png"), png(5));
    write(&disk.path().join("run/run.json"), "{}");
    let link = |to: &Path, name: &str| symlink(to, path.join(name)).unwrap();
    link(&disk.path().join("set2"), "set2");
    // Another way to the first, and to the second from within it; the data, what they are in, a run, what is not there.
    link(&path.join("set1"), "again");
    symlink(disk.path().join("set2"), disk.path().join("set2/in/up")).unwrap();
    link(path, "itself");
    link(folder.path(), "around");
    link(&disk.path().join("run"), "made");
    link(&disk.path().join("set3"), "set3");
    let dataset = open(path, &given()).unwrap();
    let names: Vec<_> = dataset
        .samples
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names, ["set1/a.png", "set2/b.png", "set2/in/c.png"]);
    assert!(dataset.skipped.is_empty(), "{:?}", dataset.skipped);
    let passed = |dataset: &crate::Dataset| -> Vec<(String, String)> {
        let passed = dataset.passed_over.iter();
        passed
            .map(|one| (one.name.clone(), one.why.clone()))
            .collect()
    };
    let said = passed(&dataset);
    let names: Vec<_> = said.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["around", "itself", "set3"]);
    assert!(said[0].1.contains("that the data themselves are in"));
    assert!(said[2].1.contains("leads nowhere"));

    // A link is one of kohya's folders by its name, and what lies in others is named.
    link(&disk.path().join("set2"), "10_thing");
    std::fs::remove_file(path.join("set2")).unwrap();
    write(&disk.path().join("set4/d.png"), png(6));
    link(&disk.path().join("set4"), "set4");
    let dataset = open(path, &Options::default()).unwrap();
    assert_eq!(dataset.layout, crate::Layout::Kohya);
    let (samples, _) = told(&dataset);
    let both = [("10_thing/b.png", "thing"), ("10_thing/in/c.png", "thing")];
    assert_eq!(samples, both);
    let mut names: Vec<_> = passed(&dataset).into_iter().map(|(name, _)| name).collect();
    names.sort();
    let all = ["around", "itself", "set1/a.png", "set3", "set4/d.png"];
    assert_eq!(names, all);
}

#[test]
fn captions_end_in_capitals_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (number, caption) in ["0.txt", "1.TXT", "2.Caption", "3.Txt"]
        .into_iter()
        .enumerate()
    {
        write(&path.join(format!("{number}.jpg")), png(1));
        write(&path.join(caption), format!("a {number}"));
    }
    write(&path.join("3.caption"), "another");
    let dataset = open(path, &given()).unwrap();
    let captions = [
        ("0.jpg", "a 0"),
        ("1.jpg", "a 1"),
        ("2.jpg", "a 2"),
        ("3.jpg", "a 3"),
    ];
    assert_eq!(told(&dataset), (captions.to_vec(), vec![]));
}

#[test]
fn pictures_of_other_kinds_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for name in ["a.png", "b.bmp", "in/c.JXL"] {
        write(&path.join(name), png(1));
        write(&path.join(name).with_extension("txt"), "a thing");
    }
    write(&path.join("d.gif"), png(1));
    let dataset = open(path, &Options::default()).unwrap();
    let (samples, skipped) = told(&dataset);
    assert_eq!(samples, [("a.png", "a thing")]);
    assert!(skipped.is_empty(), "{skipped:?}");
    let passed: Vec<_> = dataset
        .passed_over
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(passed, ["b.bmp", "d.gif", "in/c.JXL"]);
    let why = &dataset.passed_over[0].why;
    assert!(why.contains(".bmp") && why.contains("PNG"), "{why}");

    // In kohya's folders and beside them.
    let kohyas = tempfile::tempdir().unwrap();
    let path = kohyas.path();
    for name in ["2_dog/a.png", "2_dog/b.bmp", "c.bmp", "0_never/d.bmp"] {
        write(&path.join(name), png(1));
    }
    let dataset = open(path, &Options::default()).unwrap();
    let (samples, skipped) = told(&dataset);
    assert_eq!((samples, skipped), (vec![("2_dog/a.png", "dog")], vec![]));
    let passed = &dataset.passed_over;
    let names: Vec<_> = passed.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["2_dog/b.bmp", "c.bmp"]);
    let is_told = |one: &crate::Skipped| one.why.contains(".bmp");
    assert!(passed.iter().all(is_told), "{passed:?}");
}

#[test]
fn texts_in_a_tar_are_read_as_those_beside_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("texts.tar");
    let mut archive = tar::Builder::new(std::fs::File::create(&path).unwrap());
    let picture = png(7);
    let long = "a dog ".repeat(20_000);
    let notes = format!("{{\"caption\": \"a cow\", \"notes\": {long:?}}}");
    let members: [(&str, &[u8]); 16] = [
        ("0.png", &picture),
        ("0.txt", "\u{feff}a dog\nthat sits\n".as_bytes()),
        ("1.png", &picture),
        ("1.json", "\u{feff}{\"caption\": \"a cat\"}".as_bytes()),
        ("2.png", &picture),
        ("2.txt", b"caf\xe9"),
        ("3.png", &picture),
        ("3.txt", long.as_bytes()),
        ("4.png", &picture),
        ("4.json", b"{"),
        ("5.png", &picture),
        ("5.json", notes.as_bytes()),
        // Where the text counts, what is wrong with the notes is no matter.
        ("6.png", &picture),
        ("6.txt", b"a cup"),
        ("6.json", b"\xff"),
        ("7.png", &picture),
    ];
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, bytes).unwrap();
    }
    archive.into_inner().unwrap();
    let dataset = open(&path, &given()).unwrap();
    let (samples, skipped) = told(&dataset);
    let captions: Vec<_> = samples.iter().map(|(_, caption)| *caption).collect();
    // The last has none, and is given one; the others have one that cannot be read.
    let read = ["a dog\nthat sits", "a cat", "a cow", "a cup", "a thing"];
    assert_eq!(captions, read);
    assert_eq!(skipped, ["texts.tar:2", "texts.tar:3", "texts.tar:4"]);
    let parts = [
        "its .txt is not UTF-8",
        "its .txt has 120000 bytes",
        "its .json is broken",
    ];
    for (one, part) in dataset.skipped.iter().zip(parts) {
        assert!(one.why.contains(part), "{}", one.why);
    }
    let objects = Options {
        objects: true,
        ..given()
    };
    let error = open(&path, &objects).unwrap_err().to_string();
    assert!(error.contains("none is of use"), "{error}");
}
