//! Data sets as people have them, and as they should not be.

mod objects;
mod order;
mod passed;

use std::fs;
use std::path::{Path, PathBuf};

use crate::bucket::{Buckets, Chooser, Sizes};
use crate::look::{Looked, look};
use crate::order::{Flips, items};
use crate::{Dataset, DatasetError, Layout, Options, Place, open};

fn fixture(name: &str) -> PathBuf {
    let root = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../fixtures/training-data"
    );
    PathBuf::from(root).join(name)
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn png(shade: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    image::RgbImage::from_pixel(8, 6, image::Rgb([shade, 0, 0]))
        .write_to(
            &mut std::io::Cursor::new(&mut bytes),
            image::ImageFormat::Png,
        )
        .unwrap();
    bytes
}

/// Names and captions of what can be trained on, and names of what cannot.
fn told(dataset: &Dataset) -> (Vec<(&str, &str)>, Vec<&str>) {
    let samples = dataset.samples.iter();
    (
        samples
            .map(|one| (one.name.as_str(), one.caption.as_str()))
            .collect(),
        dataset
            .skipped
            .iter()
            .map(|one| one.name.as_str())
            .collect(),
    )
}

/// One size, to which every picture comes.
fn one_size() -> Chooser {
    let sizes = Sizes {
        resolution: [8, 8],
        buckets: None,
    };
    sizes.chooser()
}

fn looked(path: &Path) -> Result<(Vec<Looked>, Vec<crate::Skipped>), DatasetError> {
    let options = Options::default();
    let most = options.most_skipped;
    look(path, open(path, &options)?, &one_size(), most, &|| {})
}

#[test]
fn an_image_folder_has_what_its_metadata_list() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for name in ["a.png", "b.png", "in/c.png", "not-listed.png"] {
        write(&path.join(name), png(1));
    }
    let lines = [
        r#"{"file_name": "a.png", "text": "an a"}"#,
        r#"{"file_name": "in/c.png", "text": " a c "}"#,
        r#"{"file_name": "../a.png", "text": "out"}"#,
        r#"{"file_name": "lost.png", "text": "lost"}"#,
        r#"{"file_name": "b.png", "text": ""}"#,
        r#"{"text": "no picture"}"#,
    ];
    write(&path.join("metadata.jsonl"), lines.join("\n"));
    let dataset = open(path, &Options::default()).unwrap();
    assert_eq!(dataset.layout, Layout::Listed);
    let (samples, skipped) = told(&dataset);
    assert_eq!(samples, [("a.png", "an a"), ("in/c.png", "a c")]);
    assert_eq!(skipped, ["../a.png", "lost.png", "b.png", "no picture"]);

    fs::remove_file(path.join("metadata.jsonl")).unwrap();
    write(
        &path.join("metadata.csv"),
        "file_name,about\nb.png,\"a b, said\"\n",
    );
    let named = Options {
        caption_column: Some("about".into()),
        ..Options::default()
    };
    let dataset = open(path, &named).unwrap();
    assert_eq!(told(&dataset).0, [("b.png", "a b, said")]);
    let error = open(path, &Options::default()).unwrap_err().to_string();
    assert!(
        error.contains("--caption-column") && error.contains("about"),
        "{error}"
    );
}

#[test]
fn of_several_lines_of_a_picture_in_a_manifest_the_last_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for name in ["a.png", "b.png"] {
        write(&path.join(name), png(1));
    }
    let lines = [
        ("a.png", "old"),
        ("b.png", "a b"),
        ("a.png", "newer"),
        ("a.png", "new"),
    ];
    let lines =
        lines.map(|(name, prompt)| format!(r#"{{"image_path": "{name}", "prompt": "{prompt}"}}"#));
    write(&path.join("manifest.jsonl"), lines.join("\n"));
    let dataset = open(path, &Options::default()).unwrap();
    let counts = vec![("b.png", "a b"), ("a.png", "new")];
    assert_eq!(told(&dataset), (counts, vec![]));
    // They are listed, but however many there are, they are no reason to refuse the data.
    let (good, skipped) = looked(path).unwrap();
    assert_eq!(good.len(), 2);
    let names: Vec<_> = skipped.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a.png", "a.png"]);
    assert!(skipped[0].why.contains("the last one counts"));
    // Metadata may say several things of a picture.
    let [manifest, metadata] = ["manifest.jsonl", "metadata.jsonl"].map(|name| path.join(name));
    fs::rename(manifest, metadata).unwrap();
    assert_eq!(open(path, &Options::default()).unwrap().samples.len(), 4);
}

#[test]
fn options_of_another_layout_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(&path.join("a.png"), png(1));
    write(&path.join("a.txt"), "an a");
    let column = Options {
        caption_column: Some("about".into()),
        ..Options::default()
    };
    let methods = Options {
        methods: vec!["psg".into()],
        ..Options::default()
    };
    let refused = |options: &Options, option: &str| {
        let error = open(path, options).unwrap_err().to_string();
        assert!(error.starts_with(option), "{error}");
    };
    refused(&column, "--caption-column says nothing of");
    refused(&methods, "--methods says nothing of");
    // All of what is no run's would be no better.
    for named in [vec!["FAIL".to_owned()], Vec::new()] {
        let verdicts = Options {
            verdicts: Some(named),
            ..Options::default()
        };
        refused(&verdicts, "--verdicts says nothing of");
    }
    write(
        &path.join("metadata.jsonl"),
        r#"{"file_name": "a.png", "about": "an a"}"#,
    );
    assert_eq!(told(&open(path, &column).unwrap()).0, [("a.png", "an a")]);
    // A run's captions are its prompts.
    write(&path.join("run.json"), r#"{"methods": [{"name": "psg"}]}"#);
    write(
        &path.join("psg/manifest.jsonl"),
        r#"{"image_path": "a.png", "prompt": "a dog"}"#,
    );
    write(&path.join("psg/a.png"), png(1));
    let all = Options {
        verdicts: Some(Vec::new()),
        ..column
    };
    refused(&all, "--caption-column says nothing of");
    let all = Options {
        verdicts: Some(Vec::new()),
        ..methods
    };
    assert_eq!(open(path, &all).unwrap().samples.len(), 1);
}

#[test]
fn pictures_name_others_that_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (name, shade) in [("a.png", 1), ("b.png", 2), ("c.png", 3)] {
        write(&path.join(name), png(shade));
    }
    let wanted = Options {
        shown: true,
        ..Options::default()
    };
    let shown = |options: &Options| {
        let samples = open(path, options).unwrap().samples;
        samples
            .into_iter()
            .map(|sample| sample.shown)
            .collect::<Vec<_>>()
    };
    let expected = [Some(Place::File(path.join("c.png"))), None];
    let lines = r#"{"file_name": "a.png", "text": "an a", "ip_picture": "c.png"}
{"file_name": "b.png", "text": "a b"}
"#;
    write(&path.join("metadata.jsonl"), lines);
    assert_eq!(shown(&wanted), expected);
    assert_eq!(shown(&Options::default()), [None, None]);
    let look = |most| {
        look(
            path,
            open(path, &wanted).unwrap(),
            &one_size(),
            most,
            &|| {},
        )
    };
    let (found, _) = look(0.1).unwrap();
    let of = |name| found.iter().find(|one| one.sample.name == name).unwrap();
    let sha256 = of("a.png").shown_sha256.clone().unwrap();
    assert_ne!(sha256, of("a.png").sha256);
    assert_eq!(of("b.png").shown_sha256, None);

    fs::remove_file(path.join("metadata.jsonl")).unwrap();
    let table = "file_name,text,ip_picture\na.png,an a,c.png\nb.png,a b,\n";
    write(&path.join("metadata.csv"), table);
    assert_eq!(shown(&wanted), expected);
    // One that cannot be read is of no use to its own.
    write(&path.join("c.png"), b"torn");
    let (found, skipped) = look(0.5).unwrap();
    assert_eq!(found.len(), 1);
    assert!(skipped[0].name == "a.png" && skipped[0].why.contains("is shown for it"));
}

#[test]
fn lines_without_captions_count_or_are_given_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for name in ["a.png", "b.png", "c.png"] {
        write(&path.join(name), png(1));
    }
    let lines = r#"{"file_name": "a.png", "text": "an a"}
{"file_name": "b.png"}
{"file_name": "c.png", "text": null}
not JSON
"#;
    write(&path.join("metadata.jsonl"), lines);
    // Each is listed by its line, and counts as one in the share.
    let dataset = open(path, &Options::default()).unwrap();
    let (samples, skipped) = told(&dataset);
    assert_eq!(samples, [("a.png", "an a")]);
    assert_eq!(
        skipped,
        ["metadata.jsonl:2", "metadata.jsonl:3", "metadata.jsonl:4"]
    );
    assert!(matches!(
        looked(path),
        Err(DatasetError::Skipped {
            skipped: 3,
            all: 4,
            ..
        })
    ));
    let given = Options {
        caption: Some("a thing".into()),
        ..Options::default()
    };
    let dataset = open(path, &given).unwrap();
    let (samples, skipped) = told(&dataset);
    let all = [
        ("a.png", "an a"),
        ("b.png", "a thing"),
        ("c.png", "a thing"),
    ];
    assert_eq!(
        (samples.as_slice(), skipped),
        (&all[..], vec!["metadata.jsonl:4"])
    );

    fs::remove_file(path.join("metadata.jsonl")).unwrap();
    write(&path.join("metadata.csv"), "file_name\na.png\nb.png\n");
    let dataset = open(path, &given).unwrap();
    let expected = [("a.png", "a thing"), ("b.png", "a thing")];
    assert_eq!(told(&dataset).0, expected);
}

#[test]
fn captions_lie_beside_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for name in ["b.png", "a.jpg", "in/c.PNG", "none.png"] {
        write(&path.join(name), png(1));
    }
    write(&path.join("a.txt"), "\u{feff}an a\nmore of it\n");
    write(&path.join("b.caption"), "a b");
    write(&path.join("in/c.txt"), "a c");
    let dataset = open(path, &Options::default()).unwrap();
    assert_eq!(dataset.layout, Layout::Beside);
    let (samples, skipped) = told(&dataset);
    assert_eq!(
        samples,
        [("a.jpg", "an a"), ("b.png", "a b"), ("in/c.PNG", "a c")]
    );
    assert_eq!(skipped, ["none.png"]);
    let given = Options {
        caption: Some("a thing".into()),
        ..Options::default()
    };
    assert_eq!(open(path, &given).unwrap().samples[2].caption, "a thing");
}

#[test]
fn what_is_hidden_or_came_of_data_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let names = [
        "0.png",
        "in/1.png",
        "._0.png",
        ".ipynb_checkpoints/0-checkpoint.png",
        "lora/samples/00-000000.png",
        "made/psg/images/0.png",
        "samples/00-000000.png",
    ];
    for name in names {
        write(&path.join(name), png(1));
    }
    for name in ["lora/training.json", "made/run.json", "training.json"] {
        write(&path.join(name), "{}");
    }
    let given = Options {
        caption: Some("a thing".into()),
        ..Options::default()
    };
    let found = |path: &Path| -> Vec<String> {
        let samples = open(path, &given).unwrap().samples;
        samples.into_iter().map(|one| one.name).collect()
    };
    assert_eq!(found(path), ["0.png", "in/1.png"]);
    // Samples of nobody's training are pictures like others.
    fs::remove_file(path.join("training.json")).unwrap();
    let all = ["0.png", "in/1.png", "samples/00-000000.png"];
    assert_eq!(found(path), all);
    // So it is in kohya's folders, of which a training's is none, whatever its name.
    let kohyas = tempfile::tempdir().unwrap();
    let path = kohyas.path();
    let names = [
        "2_dog/0.png",
        "2_dog/.ipynb_checkpoints/0-checkpoint.png",
        "3_lora/samples/00-000000.png",
    ];
    for name in names {
        write(&path.join(name), png(1));
    }
    write(&path.join("3_lora/training.json"), "{}");
    assert_eq!(found(path), ["2_dog/0.png"]);
    assert!(open(path, &given).unwrap().passed_over.is_empty());
}

#[test]
fn kohya_folders_say_how_often() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(&path.join("3_sks dog/x.png"), png(1));
    write(&path.join("1_dog/y.png"), png(2));
    write(&path.join("1_dog/y.txt"), "a dog that sits");
    write(&path.join("0_never/z.png"), png(3));
    write(&path.join("other/w.png"), png(3));
    write(&path.join("cover.png"), png(4));
    let dataset = open(path, &Options::default()).unwrap();
    assert_eq!(dataset.layout, Layout::Kohya);
    let found: Vec<_> = (dataset.samples.iter())
        .map(|one| (one.caption.as_str(), one.repeats))
        .collect();
    assert_eq!(found, [("a dog that sits", 1), ("sks dog", 3)]);
    // What lies in a folder that does not say it is named, and is no reason to refuse the data.
    let (good, skipped) = looked(path).unwrap();
    assert_eq!(items(&good, Flips::None).len(), 4);
    let names: Vec<_> = skipped.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["other/w.png", "cover.png"]);
    assert!(skipped[0].why.contains("does not say how often"));
    assert!(skipped[1].why.contains("beside kohya's folders"));
    // Beside pictures with captions such a name says nothing.
    let given = Options {
        caption: Some("a thing".into()),
        ..Options::default()
    };
    let dataset = open(path, &given).unwrap();
    assert_eq!(dataset.layout, Layout::Beside);
    assert_eq!(dataset.samples.len(), 5);
    assert!(dataset.samples.iter().all(|one| one.repeats == 1));
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files_hold_pictures() {
    let path = fixture("pictures.parquet");
    let dataset = open(&path, &Options::default()).unwrap();
    assert_eq!(dataset.layout, Layout::Parquet);
    let (samples, skipped) = told(&dataset);
    let names: Vec<_> = samples.iter().map(|(_, caption)| *caption).collect();
    assert_eq!(names, ["picture 0", "picture 1", "picture 3", "picture 4"]);
    assert_eq!(skipped, ["pictures.parquet:2"]);
    // Without a column of captions all five rows have the one that is given.
    let given = Options {
        caption: Some("a thing".into()),
        caption_column: Some("lost".into()),
        ..Options::default()
    };
    let given = open(&path, &given).unwrap();
    assert_eq!(told(&given).0.len(), 5);
    assert!(given.samples.iter().all(|one| one.caption == "a thing"));
    for sample in &dataset.samples {
        let picture = sample.picture().unwrap();
        let number: u8 = sample
            .caption
            .trim_start_matches("picture ")
            .parse()
            .unwrap();
        assert_eq!(picture.rgb[3..6], [40 * number, 10, 20]);
    }
}

#[test]
fn members_of_a_tar_belong_together() {
    let dataset = open(&fixture("shard.tar"), &Options::default()).unwrap();
    assert_eq!(dataset.layout, Layout::Webdataset);
    let captions: Vec<_> = dataset
        .samples
        .iter()
        .map(|one| one.caption.as_str())
        .collect();
    assert_eq!(
        captions,
        ["a red one", "a green one", "a blue one", "a long one"]
    );
    assert_eq!(dataset.skipped[0].name, "shard.tar:shard/0003");
    let shades: Vec<u8> = (dataset.samples.iter())
        .map(|sample| *sample.picture().unwrap().rgb.last().unwrap())
        .collect();
    assert!(
        shades
            .iter()
            .zip([1u8, 2, 4, 5])
            .all(|(a, b)| a.abs_diff(b) <= 1),
        "{shades:?}"
    );
}

#[test]
fn hidden_members_of_a_tar_do_not_part_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mac.tar");
    let mut archive = tar::Builder::new(fs::File::create(&path).unwrap());
    let picture = png(7);
    let members: [(&str, &[u8]); 4] = [
        ("./._0.png", b"of a Mac"),
        ("./0.png", &picture),
        ("./._0.txt", b"of a Mac"),
        ("./0.txt", b"a dog"),
    ];
    for (name, bytes) in members {
        // Written by hand: the library leaves the "./" out.
        let mut header = tar::Header::new_old();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append(&header, bytes).unwrap();
    }
    archive.into_inner().unwrap();
    // A Mac's copy of the file's notes beside it is no archive.
    write(&folder.path().join("._mac.tar"), "of a Mac");
    let dataset = open(folder.path(), &Options::default()).unwrap();
    assert_eq!(told(&dataset), (vec![("mac.tar:./0", "a dog")], vec![]));
    assert_eq!(dataset.samples[0].picture().unwrap().rgb[0], 7);
}

#[test]
fn a_run_gives_what_its_checker_was_content_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(
        &path.join("run.json"),
        r#"{"methods": [{"name": "psg"}, {"name": "plain"}]}"#,
    );
    for method in ["psg", "plain"] {
        let line = |id: &str, prompt: &str| {
            format!(
                r#"{{"sample_id": "{id}", "image_path": "images/{id}.png", "prompt": "{prompt}"}}"#
            )
        };
        let ids = ["one", "two", "three", "four"];
        let manifest = ids.map(|id| line(id, &format!("{method} {id}")));
        write(
            &path.join(method).join("manifest.jsonl"),
            manifest.join("\n"),
        );
        for id in ids {
            write(&path.join(method).join(format!("images/{id}.png")), png(1));
        }
        // The third has two relations, one of which does not hold; both of the fourth's hold.
        let verdicts = [
            ("one", "PASS"),
            ("two", "FAIL"),
            ("three_relation1", "PASS"),
            ("three_relation2", "FAIL"),
            ("four_relation1", "PASS"),
            ("four_relation2", "PASS"),
        ];
        let verdicts = verdicts
            .map(|(id, verdict)| format!(r#"{{"sample_id": "{id}", "verdict_raw": "{verdict}"}}"#));
        write(
            &path.join(method).join("eval/per_sample.jsonl"),
            verdicts.join("\n"),
        );
    }
    let with = |verdicts: &[&str], methods: &[&str]| Options {
        verdicts: Some(verdicts.iter().map(ToString::to_string).collect()),
        methods: methods.iter().map(ToString::to_string).collect(),
        ..Options::default()
    };
    let captions = |options: &Options| -> Vec<String> {
        let samples = open(path, options).unwrap().samples;
        samples.into_iter().map(|one| one.caption).collect()
    };
    assert_eq!(
        captions(&Options::default()),
        ["psg one", "psg four", "plain one", "plain four"]
    );
    assert_eq!(captions(&with(&["FAIL"], &["psg"])), ["psg two"]);
    assert_eq!(
        captions(&with(&[], &["plain"])),
        ["plain one", "plain two", "plain three", "plain four"]
    );
    let error = open(path, &with(&[], &["none"])).unwrap_err().to_string();
    assert!(error.contains("psg, plain"), "{error}");
    let error = |verdicts: &[&str]| {
        let error = open(path, &with(verdicts, &["psg"])).unwrap_err();
        assert!(matches!(error, DatasetError::Run { .. }), "{error}");
        error.to_string()
    };
    let unknown = error(&["PASS", "UNDECIDED"]);
    assert!(unknown.contains("no verdict \"UNDECIDED\""), "{unknown}");
    // Of the four "two" fails, "one" and "four" pass, and "three" does both.
    let none = error(&["undecidable"]);
    for part in [
        "of 4 pictures none is taken",
        "--verdicts is undecidable",
        "1 FAIL, 1 FAIL and PASS, 2 PASS;",
        "--verdicts all",
    ] {
        assert!(none.contains(part), "{none}");
    }
    fs::remove_file(path.join("psg/eval/per_sample.jsonl")).unwrap();
    let error = open(path, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("--verdicts all"), "{error}");
}

#[test]
fn pictures_are_seen_upright() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jpg");
    fs::copy(fixture("turned.jpg"), &path).unwrap();
    write(&path.with_extension("txt"), "turned");
    let (good, _) = looked(folder.path()).unwrap();
    // 24 × 16 in the file.
    assert_eq!(good[0].size, [16, 24]);
    assert_eq!(good[0].sha256.len(), 64);
}

#[test]
fn what_cannot_be_read_is_named_counted_and_at_last_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for number in 0..20 {
        write(&path.join(format!("{number:02}.png")), png(number));
        write(&path.join(format!("{number:02}.txt")), "a thing");
    }
    write(&path.join("05.png"), b"no picture");
    let mut cut = png(7);
    cut.truncate(cut.len() / 2);
    write(&path.join("11.png"), cut);
    let (good, skipped) = looked(path).unwrap();
    assert_eq!(good.len(), 18);
    let names: Vec<_> = skipped.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["05.png", "11.png"]);
    assert!(
        skipped[0].why.contains("not a readable PNG"),
        "{}",
        skipped[0].why
    );

    write(&path.join("12.png"), b"");
    let error = looked(path).unwrap_err();
    assert!(matches!(
        error,
        DatasetError::Skipped {
            skipped: 3,
            all: 20,
            ..
        }
    ));
    let error = error.to_string();
    assert!(
        error.contains("10 %") && error.contains("05.png"),
        "{error}"
    );
}

#[test]
fn what_is_too_small_without_upscaling_is_named_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for number in 0..10u8 {
        write(&path.join(format!("{number}.txt")), "a thing");
        // 8 × 6 pixels.
        write(&path.join(format!("{number}.png")), png(number));
        if number > 0 {
            let large = image::RgbImage::new(16, 16);
            large.save(path.join(format!("{number}.png"))).unwrap();
        }
    }
    let sizes = Sizes {
        resolution: [16, 16],
        buckets: Some(Buckets {
            shortest: 8,
            longest: 32,
            step: 8,
            no_upscale: true,
        }),
    };
    let look = |most| {
        let dataset = open(path, &Options::default()).unwrap();
        look(path, dataset, &sizes.chooser(), most, &|| {})
    };
    let (good, skipped) = look(0.1).unwrap();
    assert_eq!((good.len(), skipped.len()), (9, 1));
    let one = &skipped[0];
    assert!(
        one.name == "0.png" && one.why.contains("8 x 6 pixels") && one.why.contains("step"),
        "{one:?}"
    );
    // One of ten is more than a twentieth.
    assert!(matches!(
        look(0.05),
        Err(DatasetError::Skipped {
            skipped: 1,
            all: 10,
            ..
        })
    ));
}

#[test]
fn what_is_too_thin_is_named_before_it_takes_all_memory() {
    let sizes = |side| Sizes {
        resolution: [side, side],
        buckets: None,
    };
    // 16384 is 512 * 512 / 16; 512 times 8000 is 4096000.
    let chooser = sizes(512).chooser();
    assert_eq!(chooser.fit([16, 512]).unwrap().resized, [512, 16_384]);
    assert!(chooser.fit([16, 513]).is_err());
    let why = chooser.fit([1, 8000]).unwrap_err();
    assert!(
        why.contains("1 x 8000 pixels") && why.contains("512 x 4096000") && why.contains("crop"),
        "{why}"
    );
    // Without upscaling a long one keeps its shape, too.
    let buckets = Buckets {
        shortest: 8,
        longest: 64,
        step: 8,
        no_upscale: true,
    };
    let within = Sizes {
        buckets: Some(buckets),
        ..sizes(64)
    };
    assert!(within.chooser().fit([1, 16_384]).is_err());

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for number in 0..10u8 {
        write(&path.join(format!("{number}.txt")), "a thing");
        write(&path.join(format!("{number}.png")), png(number));
    }
    let thin = image::RgbImage::new(1, 8000);
    thin.save(path.join("4.png")).unwrap();
    let (good, skipped) = looked(path).unwrap();
    assert_eq!(good.len(), 9);
    assert!(skipped[0].name == "4.png" && skipped[0].why.contains("8 x 64000"));
}

#[test]
fn nothing_to_train_on_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let empty = open(path, &Options::default()).unwrap_err().to_string();
    assert!(empty.contains("metadata.jsonl"), "{empty}");
    write(&path.join("a.png"), png(1));
    let without = open(path, &Options::default()).unwrap_err().to_string();
    assert!(without.contains("a.png: it has no caption"), "{without}");
    write(&path.join("notes.docx"), "x");
    let form = open(&path.join("notes.docx"), &Options::default()).unwrap_err();
    assert!(matches!(form, DatasetError::Form(_)));
    assert!(matches!(
        open(&path.join("lost"), &Options::default()),
        Err(DatasetError::Io { .. })
    ));
    write(
        &path.join("x.tar"),
        "this is no archive, whatever its name says".repeat(30),
    );
    assert!(open(&path.join("x.tar"), &Options::default()).is_err());
    write(&path.join("x.parquet"), "PAR1 nor is this a table PAR1");
    assert!(open(&path.join("x.parquet"), &Options::default()).is_err());
}
