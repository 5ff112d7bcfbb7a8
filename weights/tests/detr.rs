//! Folders of Grounding DINO, RT-DETRv2 and OWL-ViT: what is read, what is refused, and the tokenizer against transformers.

use std::fs;
use std::path::Path;

use prepose_weights::{
    DetrKind, GroundingDinoWeights, OwlVitWeights, RtDetrWeights, WeightsError, describe_file,
    detr_kind,
};
use serde_json::{Value, json};

use crate::support::{device, fixture};

const GROUNDING: &str = "eyes/grounding-dino/model";
const FAST: &str = "eyes/rt-detr/bottleneck";
const OWL: &str = "eyes/owl-vit/model";

/// A copy of a fixture's folder, to damage.
fn copy(case: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture(case)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    folder
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

#[test]
fn folders_and_their_files_are_told_apart() {
    for (case, kind) in [
        (GROUNDING, DetrKind::GroundingDino),
        (FAST, DetrKind::RtDetr),
        (OWL, DetrKind::OwlVit),
    ] {
        let folder = fixture(case);
        let same = Some((folder.clone(), kind));
        assert_eq!(detr_kind(&folder), same);
        assert_eq!(detr_kind(&folder.join("model.safetensors")), same);
        assert_eq!(detr_kind(&folder.join("preprocessor_config.json")), None);
        let described = describe_file(&folder).unwrap().to_string();
        let file = describe_file(&folder.join("model.safetensors")).unwrap();
        let name = file.kind.name();
        assert!(described.contains(name), "{described}");
    }
    for other in ["rcnn/faster-v1", "sd1-tiny", "nowhere"] {
        assert_eq!(detr_kind(&fixture(other)), None);
    }
}

#[test]
fn every_tensor_is_used_or_known_to_be_of_no_use() {
    let grounding = GroundingDinoWeights::open(&fixture(GROUNDING)).unwrap();
    grounding.load(&device()).unwrap();
    assert_eq!((grounding.name(), grounding.sides()), ("model", [80, 112]));
    let owl = OwlVitWeights::open(&fixture(OWL)).unwrap();
    owl.load(&device()).unwrap();
    assert_eq!(owl.name(), "model");
    for variant in ["basic", "bottleneck"] {
        let fast = RtDetrWeights::open(&fixture(&format!("eyes/rt-detr/{variant}"))).unwrap();
        fast.load(&device()).unwrap();
        assert_eq!((fast.name(), fast.size()), (variant, [64, 64]));
        assert_eq!(
            fast.classes(),
            ["person", "sofa", "tvmonitor", "Cat", "fire hydrant"]
        );
    }
}

#[test]
fn tokens_are_transformers() {
    let weights = GroundingDinoWeights::open(&fixture(GROUNDING)).unwrap();
    let case = fs::read(fixture("eyes/grounding-dino/case.json")).unwrap();
    let case: Value = serde_json::from_slice(&case).unwrap();
    let texts = case["texts"].as_array().unwrap();
    assert!(texts.len() > 5);
    for text in texts {
        let words = text["text"].as_str().unwrap();
        let ids: Vec<u32> = serde_json::from_value(text["ids"].clone()).unwrap();
        assert_eq!(weights.tokenizer().encode(words).unwrap(), ids, "{words:?}");
        let decoded = weights.tokenizer().decode(&ids[1..ids.len() - 1]).unwrap();
        assert_eq!(decoded, text["decoded"].as_str().unwrap(), "{words:?}");
    }
}

#[test]
fn both_forms_are_one_tokenizer() {
    let folder = copy(GROUNDING);
    let vocabulary = fs::read_to_string(folder.path().join("vocab.txt")).unwrap();
    let entries = vocabulary.lines().zip(0u32..);
    let vocab: serde_json::Map<_, _> = entries
        .map(|(token, id)| (token.to_string(), id.into()))
        .collect();
    let json = serde_json::json!({"model": {"type": "WordPiece", "vocab": vocab}});
    fs::write(folder.path().join("tokenizer.json"), json.to_string()).unwrap();
    fs::remove_file(folder.path().join("vocab.txt")).unwrap();
    let open = |path: &Path| GroundingDinoWeights::open(path).unwrap();
    let text = "a fire hydrant. Café, 3!";
    let ids = open(folder.path()).tokenizer().encode(text).unwrap();
    assert_eq!(
        ids,
        open(&fixture(GROUNDING)).tokenizer().encode(text).unwrap()
    );
}

/// The file that pictures are prepared by.
const PREPROCESSOR: &str = "preprocessor_config.json";

#[test]
fn pictures_that_are_prepared_otherwise_are_refused() {
    let refusal = |case: &str, key: &str, value: &Value| {
        let folder = copy(case);
        edit(&folder.path().join(PREPROCESSOR), |config| {
            config[key] = value.clone()
        });
        let opened = match case {
            GROUNDING => GroundingDinoWeights::open(folder.path()).map(drop),
            _ => RtDetrWeights::open(folder.path()).map(drop),
        };
        opened.unwrap_err().to_string()
    };
    // As transformers' run_object_detection.py writes it.
    let fitted = json!({"max_height": 64, "max_width": 64});
    let edges = json!({"shortest_edge": 64, "longest_edge": 64});
    let squashed = json!({"height": 320, "width": 320});
    for (case, key, value, named) in [
        (FAST, "size", &fitted, "`max_height`"),
        (FAST, "size", &edges, "`longest_edge`"),
        (FAST, "size", &json!({"side": 64}), "`side`"),
        (FAST, "do_pad", &json!(true), "`do_pad` is not false"),
        (FAST, "do_normalize", &json!(true), "`do_normalize`"),
        (FAST, "resample", &json!(3), "`resample` is not 2"),
        (GROUNDING, "size", &squashed, "`height`"),
        (GROUNDING, "size", &fitted, "`shortest_edge`"),
        (GROUNDING, "do_normalize", &json!(false), "`do_normalize`"),
        (GROUNDING, "do_resize", &json!(false), "`do_resize`"),
        (GROUNDING, "do_rescale", &json!(false), "`do_rescale`"),
        (GROUNDING, "image_mean", &json!([0.5, 0.5, 0.5]), "[0.485,"),
    ] {
        let text = refusal(case, key, value);
        assert!(
            text.contains(named) && text.contains(PREPROCESSOR),
            "{key}: {text}"
        );
    }
}

/// What published networks say: IDEA-Research/grounding-dino-base, and docling-project/docling-layout-heron, an RT-DETRv2.
#[test]
fn published_processors_are_read() {
    let mut processor = json!({
        "_valid_processor_keys": ["images", "size"], "do_convert_annotations": true, "do_normalize": true,
        "do_pad": true, "do_rescale": true, "do_resize": true, "format": "coco_detection",
        "image_mean": [0.485, 0.456, 0.406], "image_processor_type": "GroundingDinoImageProcessor",
        "image_std": [0.229, 0.224, 0.225], "processor_class": "GroundingDinoProcessor", "resample": 2,
        "rescale_factor": 0.00392156862745098, "size": {"longest_edge": 1333, "shortest_edge": 800},
    });
    let folder = copy(GROUNDING);
    fs::write(folder.path().join(PREPROCESSOR), processor.to_string()).unwrap();
    let opened = GroundingDinoWeights::open(folder.path()).unwrap();
    assert_eq!(opened.sides(), [800, 1333]);
    for (key, value) in [
        ("image_processor_type", json!("RTDetrImageProcessor")),
        ("do_normalize", json!(false)),
        ("do_pad", json!(false)),
        ("pad_size", Value::Null),
        ("size", json!({"height": 640, "width": 640})),
    ] {
        processor[key] = value;
    }
    let folder = copy(FAST);
    fs::write(folder.path().join(PREPROCESSOR), processor.to_string()).unwrap();
    assert_eq!(
        RtDetrWeights::open(folder.path()).unwrap().size(),
        [640, 640]
    );
    // Without a file they are prepared like that, too.
    fs::remove_file(folder.path().join(PREPROCESSOR)).unwrap();
    assert_eq!(
        RtDetrWeights::open(folder.path()).unwrap().size(),
        [640, 640]
    );
}

/// transformers 5 writes one file for the tokenizer's and the pictures' part, and reads that one first.
#[test]
fn the_processor_of_transformers_5_is_read() {
    let folder = copy(GROUNDING);
    let place = |name: &str| folder.path().join(name);
    let sides = || GroundingDinoWeights::open(folder.path()).unwrap().sides();
    let text = fs::read(place(PREPROCESSOR)).unwrap();
    let mut pictures: Value = serde_json::from_slice(&text).unwrap();
    pictures["size"] = json!({"shortest_edge": 96, "longest_edge": 128});
    let write = |processor: Value| {
        fs::write(place("processor_config.json"), processor.to_string()).unwrap();
    };
    // That of an earlier version is not about pictures.
    write(json!({"processor_class": "GroundingDinoProcessor"}));
    assert_eq!(sides(), [80, 112]);
    write(json!({"processor_class": "GroundingDinoProcessor", "image_processor": pictures}));
    assert_eq!(sides(), [96, 128]);
    fs::remove_file(place(PREPROCESSOR)).unwrap();
    assert_eq!(sides(), [96, 128]);
    pictures["do_normalize"] = json!(false);
    write(json!({"image_processor": pictures}));
    let error = GroundingDinoWeights::open(folder.path()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("processor_config.json: `do_normalize`"),
        "{error}"
    );
}

#[test]
fn what_is_wrong_is_named() {
    let refusal = |case: &str, damage: &dyn Fn(&Path)| {
        let folder = copy(case);
        damage(folder.path());
        let opened = match case {
            GROUNDING => GroundingDinoWeights::open(folder.path())
                .and_then(|weights| weights.load(&device()).map(drop)),
            OWL => OwlVitWeights::open(folder.path())
                .and_then(|weights| weights.load(&device()).map(drop)),
            _ => RtDetrWeights::open(folder.path())
                .and_then(|weights| weights.load(&device()).map(drop)),
        };
        opened.unwrap_err()
    };
    let says = |error: WeightsError, words: &[&str]| {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text += &format!(": {cause}");
            source = cause.source();
        }
        for word in words {
            assert!(text.contains(word), "{text}");
        }
    };
    let remove =
        |name: &'static str| move |folder: &Path| fs::remove_file(folder.join(name)).unwrap();
    says(
        refusal(GROUNDING, &remove("model.safetensors")),
        &["no weights here"],
    );
    says(
        refusal(GROUNDING, &remove("vocab.txt")),
        &["tokenizer.json", "vocab.txt"],
    );
    let other = |case: &'static str| {
        move |folder: &Path| {
            let from = fixture(case).join("model.safetensors");
            fs::copy(from, folder.join("model.safetensors"))
                .map(drop)
                .unwrap();
        }
    };
    says(
        refusal(GROUNDING, &other(FAST)),
        &["an RT-DETR, not a Grounding DINO"],
    );
    says(
        refusal(FAST, &other(GROUNDING)),
        &["a Grounding DINO, not an RT-DETR"],
    );
    says(refusal(FAST, &other("rcnn/faster-v1")), &["not an RT-DETR"]);
    says(refusal(OWL, &other(FAST)), &["an RT-DETR, not an OWL-ViT"]);
    says(refusal(FAST, &other(OWL)), &["an OWL-ViT, not an RT-DETR"]);
    // Another size of the same network.
    says(
        refusal(FAST, &other("eyes/rt-detr/basic")),
        &["model.backbone"],
    );
    let config = |key: &'static str, value: Value| {
        move |folder: &Path| {
            edit(&folder.join("config.json"), |config| {
                config[key] = value.clone()
            })
        }
    };
    says(
        refusal(GROUNDING, &config("d_model", 64.into())),
        &["bbox_embed.0.layers.0.weight is [32, 32]"],
    );
    says(
        refusal(GROUNDING, &config("d_model", "wide".into())),
        &["`d_model` cannot be \"wide\""],
    );
    says(
        refusal(FAST, &config("decoder_method", "discrete".into())),
        &["`decoder_method`"],
    );
    let sides = |size: Value| {
        move |folder: &Path| {
            let path = folder.join("preprocessor_config.json");
            edit(&path, |config| config["size"] = size.clone());
        }
    };
    let huge = serde_json::json!({"shortest_edge": 1_000_000_000});
    says(refusal(GROUNDING, &sides(huge)), &["1000000000 pixels"]);
    let odd = serde_json::json!({"height": 100, "width": 64});
    says(refusal(FAST, &sides(odd)), &["32 must divide it"]);
    says(
        refusal(FAST, &sides("large".into())),
        &["`size` makes no sense"],
    );
    let short = |folder: &Path| fs::write(folder.join("vocab.txt"), "[PAD]\n[CLS]\n").unwrap();
    says(refusal(GROUNDING, &short), &["[SEP]"]);
    let long = |folder: &Path| {
        let path = folder.join("vocab.txt");
        let more = fs::read_to_string(&path).unwrap() + "one\nmore\n";
        fs::write(path, more).unwrap();
    };
    says(refusal(GROUNDING, &long), &["1102 tokens", "1100"]);
}
