//! Networks that look at pictures, from every layout that they are published in, and what is said of those that do not fit.

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::{FloatDType, Tensor};
use prepose_models::sam::Prompt;
use prepose_weights::{EyeKind, EyeWeights, WeightsError, describe_file};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;

use crate::support::{Expected, chain, device, fixture};

const F32: FloatDType = FloatDType::F32;

fn eye(name: &str) -> PathBuf {
    fixture(&format!("eyes/{name}"))
}

fn expected(name: &str) -> Expected {
    Expected::read(&format!("eyes/{name}/expected.safetensors"))
}

/// An input, which fixtures have in f16.
fn input<const D: usize>(name: &str, tensor: &str) -> Tensor<D> {
    let bytes = fs::read(eye(name).join("expected.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let view = file.tensor(tensor).unwrap();
    let data = burn::tensor::TensorData::from_bytes_vec(
        view.data().to_vec(),
        view.shape().to_vec(),
        burn::tensor::DType::F16,
    );
    Tensor::from_data(data, (&device(), burn::tensor::DType::F32))
}

fn refusal<T>(result: Result<T, WeightsError>) -> String {
    match result {
        Err(error) => chain(&error),
        Ok(_) => panic!("it was accepted"),
    }
}

#[test]
fn every_layout_gives_the_same_network() {
    for file in [
        "dinov2",
        "dinov2/model.safetensors",
        "dinov2/dinov2_original.pth",
    ] {
        let weights = EyeWeights::open(eye(file)).unwrap();
        assert_eq!(weights.kind(), EyeKind::Dinov2);
        let features = weights.load_dinov2(&device(), F32).unwrap();
        let features = features.features(input("dinov2", "wide/pictures"));
        expected("dinov2").compare("wide/features", features, 1e-5);
    }
    for file in ["depth", "depth/depth_original.pth"] {
        let weights = EyeWeights::open(eye(file)).unwrap();
        assert_eq!(weights.kind(), EyeKind::DepthAnything);
        let network = weights.load_depth(&device(), F32).unwrap();
        let depths = network.forward(input("depth", "square/pictures"));
        expected("depth").compare("square/depth", depths, 2e-5);
    }
    for file in ["sam", "sam/sam_original.pth"] {
        let weights = EyeWeights::open(eye(file)).unwrap();
        assert_eq!(weights.kind(), EyeKind::Sam);
        let network = weights.load_sam(&device(), F32).unwrap();
        let embedding = network.encode(input("sam", "pictures"));
        expected("sam").compare("embedding", embedding.clone(), 2e-5);
        let box_ = Prompt::of_box([5.0, 10.0, 45.0, 55.0]);
        let masks = network.segment(&embedding.narrow(0, 1, 1), &[box_], false);
        let first: Tensor<4> = expected("sam").tensor("boxes/one/masks");
        let mut wanted = expected("sam");
        wanted.set("first", first.narrow(0, 0, 1).into_data());
        wanted.compare("first", masks.logits, 2e-5);
    }
    for file in ["clip", "clip/open_clip_pytorch_model.bin"] {
        let weights = EyeWeights::open(eye(file)).unwrap();
        assert_eq!(weights.kind(), EyeKind::Clip);
        let network = weights.load_clip(&device(), F32).unwrap();
        let embedded = network.embed_pictures(input("clip", "pictures"));
        expected("clip").compare("picture", embedded, 1e-5);
        // A whole CLIP has a picture encoder.
        let vision = weights.load_clip_vision(&device(), F32).unwrap();
        let encoding = vision.forward(input("clip", "pictures"), 0);
        expected("clip").compare("pooled", encoding.pooled, 1e-5);
        assert_eq!(encoding.embedding.unwrap().dims(), [2, 24]);
    }
    let weights = EyeWeights::open(eye("clip-vision")).unwrap();
    let network = weights.load_clip_vision(&device(), F32).unwrap();
    let encoding = network.forward(input("clip-vision", "pictures"), 0);
    expected("clip-vision").compare("embedding", encoding.embedding.unwrap(), 1e-5);
    assert_eq!(weights.name(), "clip-vision");
    assert_eq!(weights.file_hash().unwrap().sha256.len(), 64);
}

#[test]
fn fids_inception_is_read_from_both_formats() {
    let mut outputs = Vec::new();
    for file in ["inception/inception.pth", "inception/model.safetensors"] {
        let weights = EyeWeights::open(eye(file)).unwrap();
        assert_eq!(weights.kind(), EyeKind::Inception);
        let network = weights.load_inception(&device(), F32).unwrap();
        let config = network.config();
        assert_eq!((config.thinner, config.classes), (8, 12));
        let grey = Tensor::<4>::ones([1, 3, 299, 299], &device()) * 0.1;
        outputs.push(network.forward(grey).features.into_data());
    }
    outputs[0].assert_eq(&outputs[1], true);
    // torchvision's own network has the same names.
    let folder = tempfile::tempdir().unwrap();
    let bytes = fs::read(eye("inception/model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let with = |classes: usize, extra: Option<&str>| {
        let mut views: Vec<_> = file.iter().filter(|(key, _)| *key != "fc.weight").collect();
        let shape = vec![classes, 256];
        let data = &vec![0; classes * 256 * 2];
        let fc = TensorView::new(safetensors::Dtype::F16, shape.clone(), data).unwrap();
        views.push(("fc.weight", fc.clone()));
        views.extend(extra.map(|name| (name, fc)));
        let path = folder.path().join("inception.safetensors");
        safetensors::serialize_to_file(views, None, &path).unwrap();
        refusal(EyeWeights::open(&path))
    };
    for message in [with(1000, None), with(12, Some("AuxLogits.fc.weight"))] {
        assert!(message.contains("ImageNet"), "{message}");
        assert!(message.contains("pt_inception"), "{message}");
    }
}

#[test]
fn files_without_a_configuration_are_those_that_were_published() {
    let folder = tempfile::tempdir().unwrap();
    let alone = |from: &str, name: &str| {
        let path = folder.path().join(name);
        fs::copy(eye(from), &path).unwrap();
        path
    };
    // All sizes but the number of heads, which published networks have by their width.
    let path = alone("dinov2/dinov2_original.pth", "dinov2.pth");
    let dinov2 = EyeWeights::open(&path).unwrap();
    let dinov2 = dinov2.load_dinov2(&device(), F32).unwrap();
    let config = dinov2.config();
    assert_eq!((config.hidden_size, config.num_hidden_layers), (16, 4));
    assert_eq!((config.image_size, config.patch_size), (56, 14));
    assert_eq!((config.mlp_ratio, config.interpolate_offset), (2.0, 0.1));
    let path = alone("depth/depth_original.pth", "depth.pth");
    let depth = EyeWeights::open(&path)
        .unwrap()
        .load_depth(&device(), F32)
        .unwrap();
    let config = depth.config();
    assert_eq!(config.neck_hidden_sizes, [6, 8, 12, 16]);
    assert_eq!(config.backbone_config.out_indices, Some(vec![1, 2, 3, 4]));
    let path = alone("clip/open_clip_pytorch_model.bin", "clip.bin");
    let message = refusal(EyeWeights::open(&path));
    assert!(message.contains("open_clip_config.json"), "{message}");
    let details = r#"{"model_cfg": {"quick_gelu": true, "vision_cfg": {"head_width": 10},
                      "text_cfg": {"heads": 4}}}"#;
    fs::write(folder.path().join("open_clip_config.json"), details).unwrap();
    let weights = EyeWeights::open(&path).unwrap();
    let network = weights.load_clip(&device(), F32).unwrap();
    let embedded = network.embed_pictures(input("clip", "pictures"));
    expected("clip").compare("picture", embedded, 1e-5);
    // A configuration of something else that lies there says nothing.
    fs::write(
        folder.path().join("config.json"),
        r#"{"model_type": "bert"}"#,
    )
    .unwrap();
    EyeWeights::open(&path)
        .unwrap()
        .load_clip(&device(), F32)
        .unwrap();
}

#[test]
fn another_network_is_named_as_what_it_is() {
    let open = |name: &str| EyeWeights::open(eye(name)).unwrap();
    let message = refusal(open("sam").load_depth(&device(), F32));
    assert!(
        message.contains("this is a segmenter (Segment Anything)"),
        "{message}"
    );
    assert!(message.contains("give a depth network"), "{message}");
    let message = refusal(open("dinov2").load_clip_vision(&device(), F32));
    assert!(message.contains("this is a DINOv2"), "{message}");
    let message = refusal(open("clip-vision").load_clip(&device(), F32));
    assert!(message.contains("picture encoder"), "{message}");
    let message = refusal(EyeWeights::open(fixture("rcnn/mask-v2/model.safetensors")));
    assert!(message.contains("give a CLIP, a DINOv2"), "{message}");
    let message = refusal(EyeWeights::open(fixture("sd1-tiny/text_encoder")));
    assert!(message.contains("this is a text encoder"), "{message}");
    let message = refusal(EyeWeights::open(fixture("sd1-tiny")));
    assert!(message.contains("no weights here"), "{message}");
    assert!(refusal(EyeWeights::open("/nowhere/sam")).contains("no such file or folder"));
}

#[test]
fn info_knows_them() {
    for (path, kind) in [
        ("sam", EyeKind::Sam),
        ("sam/sam_original.pth", EyeKind::Sam),
        ("depth", EyeKind::DepthAnything),
        ("depth/depth_original.pth", EyeKind::DepthAnything),
        ("dinov2/model.safetensors", EyeKind::Dinov2),
        ("dinov2/dinov2_original.pth", EyeKind::Dinov2),
        ("clip", EyeKind::Clip),
        ("clip/open_clip_pytorch_model.bin", EyeKind::Clip),
        ("clip-vision", EyeKind::ClipVision),
        ("inception/model.safetensors", EyeKind::Inception),
        ("inception/inception.pth", EyeKind::Inception),
        ("image-reward/ImageReward.pt", EyeKind::ImageReward),
    ] {
        let description = describe_file(&eye(path)).unwrap();
        let text = description.to_string();
        assert!(text.contains(kind.name()), "{path}: {text}");
        assert_eq!(description.path, eye(path));
        assert!(description.parameters > 1000);
    }
}

/// The fixture's folder with some tensors left out, or another first number (f16) in those of biases.
fn changed(name: &str, keep: impl Fn(&str) -> bool, number: Option<[u8; 2]>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(
        eye(name).join("config.json"),
        folder.path().join("config.json"),
    )
    .unwrap();
    let bytes = fs::read(eye(name).join("model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let all: Vec<_> = file
        .iter()
        .filter(|(key, _)| keep(key))
        .map(|(key, view)| {
            let mut data = view.data().to_vec();
            if let (Some(number), true) = (number, key.ends_with("bias")) {
                data[..2].copy_from_slice(&number);
            }
            (key.to_string(), view.shape().to_vec(), data)
        })
        .collect();
    let views = all.iter().map(|(key, shape, data)| {
        let view = TensorView::new(safetensors::Dtype::F16, shape.clone(), data).unwrap();
        (key.clone(), view)
    });
    let path = folder.path().join("model.safetensors");
    safetensors::serialize_to_file(views, None, &path).unwrap();
    folder
}

#[test]
fn what_is_amiss_is_named() {
    let load = |folder: &Path| {
        let weights = EyeWeights::open(folder)?;
        match weights.kind() {
            EyeKind::Sam => weights.load_sam(&device(), F32).map(|_| ()),
            EyeKind::DepthAnything => weights.load_depth(&device(), F32).map(|_| ()),
            EyeKind::Dinov2 => weights.load_dinov2(&device(), F32).map(|_| ()),
            EyeKind::Clip => weights.load_clip(&device(), F32).map(|_| ()),
            EyeKind::ClipVision => weights.load_clip_vision(&device(), F32).map(|_| ()),
            EyeKind::Inception => weights.load_inception(&device(), F32).map(|_| ()),
            EyeKind::ImageReward => weights.load_image_reward(&device(), F32).map(|_| ()),
        }
    };
    for (name, left_out) in [
        ("sam", "mask_decoder.iou_token.weight"),
        ("depth", "head.conv3.bias"),
        ("dinov2", "layernorm.weight"),
        ("clip", "logit_scale"),
        ("clip-vision", "vision_model.post_layernorm.bias"),
    ] {
        let folder = changed(name, |key| key != left_out, None);
        let message = refusal(load(folder.path()));
        assert!(message.contains("1 missing"), "{message}");
        assert!(message.contains(left_out), "{message}");
        assert!(!message.contains("--allow-mismatch"), "{message}");
        let folder = changed(name, |_| true, Some([0x00, 0x7e]));
        let message = refusal(load(folder.path()));
        assert!(message.contains("NaN or infinite"), "{message}");
    }
    for name in ["dinov2", "clip-vision"] {
        let folder = changed(name, |_| true, None);
        let sound = fs::read_to_string(eye(name).join("config.json")).unwrap();
        for (key, number) in [
            ("image_size", "4096"),
            ("hidden_size", "60"),
            ("num_hidden_layers", "5"),
            ("patch_size", "7"),
        ] {
            let place = sound.find(&format!("\"{key}\": ")).unwrap();
            let (start, rest) = sound.split_at(place + key.len() + 4);
            let end = rest.find([',', '\n']).unwrap();
            let wrong = format!("{start}{number}{}", &rest[end..]);
            fs::write(folder.path().join("config.json"), wrong).unwrap();
            let message = refusal(load(folder.path()));
            assert!(message.contains("config.json"), "{key}: {message}");
        }
    }
}
