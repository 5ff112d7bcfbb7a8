//! Detectors from folders and state dicts, and what is said of those that do not fit.

use std::path::Path;

use crate::support::{chain, device, fixture};
use prepose_weights::DetectorWeights;
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;

/// Writes the fixture's tensors to `to` under other names; those with none are left out.
fn rename(case: &str, to: &Path, name: impl Fn(&str) -> Option<String>) {
    let bytes = std::fs::read(fixture(&format!("rcnn/{case}/model.safetensors"))).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let renamed = file.iter().filter_map(|(key, view)| {
        let view = TensorView::new(view.dtype(), view.shape().to_vec(), view.data()).unwrap();
        Some((name(key)?, view))
    });
    safetensors::serialize_to_file(renamed, None, to).unwrap();
}

/// A copy of the fixture's folder with renamed tensors.
fn folder(case: &str, name: impl Fn(&str) -> Option<String>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = "config.json";
    let from = fixture(&format!("rcnn/{case}/{config}"));
    std::fs::copy(from, folder.path().join(config)).unwrap();
    rename(case, &folder.path().join("model.safetensors"), name);
    folder
}

fn message(path: &Path) -> String {
    let loaded = DetectorWeights::open(path).and_then(|weights| weights.load(&device()));
    chain(&loaded.map(|_| ()).unwrap_err())
}

#[test]
fn folders_load_whole() {
    for case in ["faster-v1", "faster-v2", "mask-v1", "mask-v2"] {
        let weights = DetectorWeights::open(fixture(&format!("rcnn/{case}"))).unwrap();
        assert_eq!(weights.name(), case);
        weights.load(&device()).unwrap();
        assert_eq!(
            weights.file_hash().unwrap().path.file_name().unwrap(),
            "model.safetensors"
        );
    }
    // The file of weights finds the configuration next to it.
    let weights = DetectorWeights::open(fixture("rcnn/mask-v2/model.safetensors")).unwrap();
    assert_eq!(weights.name(), "mask-v2");
}

#[test]
fn names_from_before_torchvision_0_13() {
    let old = |key: &str| {
        let mut name = key.to_string();
        for i in 0..4 {
            name = name.replace(
                &format!("mask_head.{i}.0."),
                &format!("mask_head.mask_fcn{}.", i + 1),
            );
            for blocks in ["inner_blocks", "layer_blocks"] {
                name = name.replace(&format!("{blocks}.{i}.0."), &format!("{blocks}.{i}."));
            }
        }
        Some(name.replace("rpn.head.conv.0.0.", "rpn.head.conv."))
    };
    let folder = folder("mask-v1", old);
    DetectorWeights::open(folder.path())
        .unwrap()
        .load(&device())
        .unwrap();
}

#[test]
fn what_is_amiss_is_named() {
    let missing = folder("faster-v1", |key| {
        (key != "rpn.head.cls_logits.bias").then(|| key.into())
    });
    let text = message(missing.path());
    assert!(
        text.contains("1 missing (rpn.head.cls_logits.bias)"),
        "{text}"
    );
    assert!(!text.contains("allow-mismatch"), "{text}");

    let more = folder("faster-v1", |key| {
        Some(key.replace("cls_logits.bias", "logits.bias"))
    });
    let text = message(more.path());
    assert!(text.contains("1 unused (rpn.head.logits.bias)"), "{text}");

    let text = message(Path::new("nowhere/detector"));
    assert!(
        text.contains("no such file or folder; give a detector's folder"),
        "{text}"
    );

    let empty = tempfile::tempdir().unwrap();
    let text = message(empty.path());
    assert!(
        text.contains("none of model.safetensors, model.pth"),
        "{text}"
    );

    let odd = folder("faster-v1", |key| Some(key.into()));
    std::fs::write(
        odd.path().join("config.json"),
        r#"{"architecture": "yolo"}"#,
    )
    .unwrap();
    let text = message(odd.path());
    assert!(text.contains("unknown variant `yolo`"), "{text}");

    // Without a configuration only torchvision's own can be known, and this is none of them.
    let unknown = tempfile::tempdir().unwrap();
    let file = unknown.path().join("weights.safetensors");
    rename("faster-v1", &file, |key| Some(key.into()));
    assert!(message(&file).contains("not a detector"));
}

#[test]
fn torchvisions_own_are_told_apart() {
    let unknown = tempfile::tempdir().unwrap();
    let file = unknown.path().join("weights.safetensors");
    rename("faster-v2", &file, |key| Some(key.into()));
    let weights = DetectorWeights::open(&file).unwrap();
    assert_eq!(weights.name(), "fasterrcnn_resnet50_fpn_v2");
    assert_eq!(weights.config().classes.len(), 91);
    let text = message(&file);
    assert!(
        text.contains("of another shape") && text.contains("torchvision's fasterrcnn"),
        "{text}"
    );
}
