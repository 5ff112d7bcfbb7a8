//! Folders as people have them.

use std::fs;

use super::*;

fn wanted(prompts: &[(&str, &str)]) -> Vec<Wanted> {
    let one = |(id, text): &(&str, &str)| Wanted {
        prompt_id: (*id).into(),
        prompt: (*text).into(),
    };
    prompts.iter().map(one).collect()
}

fn job(prompt_id: &str, number: usize) -> Job {
    Job {
        name: String::new(),
        prompt_id: prompt_id.into(),
        prompt: String::new(),
        seed: 40 + number as u64,
        number,
        start: None,
    }
}

/// Files of these names, and what each of the wanted is found to be: prompts and their pictures 0 and 1.
fn find(
    layout: &str,
    files: &[&str],
    prompts: &[(&str, &str)],
) -> Result<Vec<Option<String>>, SourceError> {
    let root = tempfile::tempdir().unwrap();
    for file in files {
        let (name, text) = file.split_once('=').unwrap_or((file, "x"));
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let folder = Folder::open(root.path(), &layout.parse()?, &wanted(prompts))?;
    let jobs = prompts.iter().flat_map(|(id, _)| [job(id, 0), job(id, 1)]);
    Ok(jobs
        .map(|job| folder.file_of(&job).map(str::to_owned))
        .collect())
}

fn names(found: &[Option<String>]) -> Vec<&str> {
    found
        .iter()
        .map(|name| name.as_deref().unwrap_or("-"))
        .collect()
}

#[test]
fn each_benchmark_has_its_names() {
    let visor = [("visor_00012", "a"), ("visor_00123", "b")];
    let found = find(
        "visor",
        &["12_0.png", "12_1.jpg", "123_1.webp", "notes.txt", "7_0.png"],
        &visor,
    )
    .unwrap();
    assert_eq!(names(&found), ["12_0.png", "12_1.jpg", "-", "123_1.webp"]);

    let spatial = [("000001", "a"), ("000002", "b")];
    let found = find("spatialgeneval", &["000001.png", "000002.PNG"], &spatial).unwrap();
    assert_eq!(names(&found), ["000001.png", "-", "000002.PNG", "-"]);

    let geneval = [("geneval_00353", "a dog"), ("geneval_00354", "a cat")];
    let found = find(
        "geneval",
        &[
            "00353/samples/0000.png",
            "00353/samples/00001.png",
            "00353/grid.png",
        ],
        &geneval,
    )
    .unwrap();
    assert_eq!(
        names(&found),
        [
            "00353/samples/0000.png",
            "00353/samples/00001.png",
            "-",
            "-"
        ]
    );
    // What the folder says of itself counts more than its number.
    let metadata = "00000/metadata.jsonl={\"tag\": \"position\", \"prompt\": \"a cat\"}\n";
    let found = find("geneval", &[metadata, "00000/samples/0000.png"], &geneval).unwrap();
    assert_eq!(names(&found), ["-", "-", "00000/samples/0000.png", "-"]);

    let manifest = "manifest.jsonl={\"prompt_id\": \"p1\", \"seed\": 41, \"image_path\": \"images/x.png\", \"prompt\": \"a\"}\n";
    let found = find("manifest", &[manifest, "images/x.png"], &[("p1", "a")]).unwrap();
    assert_eq!(names(&found), ["-", "images/x.png"]);
}

#[test]
fn compbench_names_pictures_by_their_prompts() {
    let prompts = [
        ("t_0", "a dog, on the left of a \"cat\""),
        ("t_1", "a cup"),
        ("t_2", "a cup"),
    ];
    // The numbers may run through the whole set; of two prompts with one text the first has the first pictures.
    let files = [
        "a dog, on the left of a 'cat'_000017.png",
        "a_dog_on_the_left_of_a_cat_000003.png",
        "a cup_000000.png",
        "a cup_000004.png",
        "a cup_000005.png",
        "a cup_000009.png",
        "a cupboard_000000.png",
    ];
    let found = find("t2i-compbench", &files, &prompts).unwrap();
    assert_eq!(
        names(&found),
        [files[1], files[0], files[2], files[3], files[4], files[5]]
    );
}

#[test]
fn templates_are_read() {
    let prompts = [("p_1", "a dog"), ("p_1_2", "a cat")];
    let found = find(
        "{prompt_id}_{index}.png",
        &["p_1_0.png", "p_1_2_1.webp"],
        &prompts,
    )
    .unwrap();
    assert_eq!(names(&found), ["p_1_0.png", "-", "-", "p_1_2_1.webp"]);
    let found = find(
        "{seed}/{prompt}",
        &["0041/a-dog.png", "40/A Cat.jpeg"],
        &prompts,
    )
    .unwrap();
    assert_eq!(names(&found), ["-", "0041/a-dog.png", "40/A Cat.jpeg", "-"]);
    for (template, why) in [
        ("{index}.png", "does not say which prompt"),
        ("x.png", "does not say which prompt"),
        ("{prompt_id}_{number}", "says twice"),
        ("{prompt_id}_{what}", "which is not a place"),
        (
            "{prompt_id}/{n}.png",
            "has \"/{n}\" in it, which is not a place; it needs {prompt_id}, {number} or {prompt} for the prompt, and {seed} or \
             {index}",
        ),
    ] {
        let error = find(template, &[], &prompts).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    for text in ["{prompt_id}/{index}.png", "visor"] {
        let layout: Layout = text.parse().unwrap();
        assert_eq!(layout.to_string(), text);
        let json = serde_json::to_string(&layout).unwrap();
        assert_eq!(serde_json::from_str::<Layout>(&json).unwrap(), layout);
    }
}

#[test]
fn what_could_be_two_things_is_refused() {
    let prompts = [("a_1", "a dog"), ("b_1", "a dog!")];
    let error = find("{prompt}_{index}", &["a dog_0.png"], &prompts)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "the name \"a dog_0.png\" fits a_1 (picture 0) and b_1 (picture 0): rename it, or say with --name-template how names are formed"
    );
    let error = find("visor", &["1_0.png"], &prompts)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("fits a_1 (picture 0) and b_1 (picture 0)"),
        "{error}"
    );
    let error = find(
        "{prompt_id}/{index}",
        &["a_1/0.png", "a_1/00.jpg"],
        &prompts,
    )
    .unwrap_err()
    .to_string();
    assert!(
        error.contains("are both the picture of a_1, picture 0"),
        "{error}"
    );
    let error = Folder::open(Path::new("/no/such/folder"), &Layout::Visor, &[])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("cannot be used as a folder of pictures"),
        "{error}"
    );
    let error = find("manifest", &["manifest.jsonl={\"prompt\": 1}"], &prompts)
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("manifest.jsonl, line 1:"), "{error}");
}

#[test]
fn files_are_handed_over() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("1_0.png"), b"abc").unwrap();
    let mut folder = Folder::open(root.path(), &Layout::Visor, &wanted(&[("v_1", "a")])).unwrap();
    let mut got = Vec::new();
    let jobs = [job("v_1", 0), job("v_1", 1)];
    folder
        .fetch(&jobs, &mut |index, outcome| {
            got.push((index, outcome));
            Ok(())
        })
        .unwrap();
    assert_eq!(got[1], (1, Outcome::Missing));
    let (0, Outcome::Picture(file)) = &got[0] else {
        panic!("{got:?}")
    };
    assert_eq!(
        (file.bytes.as_slice(), file.origin.file.as_deref()),
        (&b"abc"[..], Some("1_0.png"))
    );
    assert!(file.origin.sha256.starts_with("ba7816bf"));
}
