//! Downloads from a hub on this machine: one that breaks off, goes on, lies and refuses.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use crate::support::chain;
use crate::support::server::{COMMIT, Hub, Served};
use prepose_weights::hub::{HubError, HubSettings, PullEvent, PullRequest, Pulled, Timeouts, pull};

fn sha256(bytes: &[u8]) -> String {
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&path, bytes).unwrap();
    prepose_weights::sha256_file(path.path()).unwrap()
}

fn large(len: usize) -> Served {
    let content: Vec<u8> = (0..len).map(|i| (i * 7 % 251) as u8).collect();
    Served {
        etag: sha256(&content),
        content,
        ..Served::default()
    }
}

fn settings(hub: &Hub, cache: &Path) -> HubSettings {
    HubSettings {
        cache: cache.join("hub"),
        endpoint: hub.endpoint.clone(),
        token: None,
        offline: false,
        timeouts: Timeouts {
            pause: Duration::from_millis(1),
            ..Timeouts::default()
        },
    }
}

fn fetch(name: &str, settings: &HubSettings) -> Result<Pulled, HubError> {
    let request = PullRequest {
        name: name.into(),
        revision: Some("main".into()),
    };
    pull(&request, settings, &mut |_| {})
}

const FILE: &str = "me/model/weights.safetensors";

#[test]
fn a_file_lands_in_the_shared_cache() {
    let hub = Hub::start(&[("weights.safetensors", large(300_000))], None);
    let home = tempfile::tempdir().unwrap();
    let settings = settings(&hub, home.path());
    let mut received = 0;
    let mut done = false;
    let request = PullRequest {
        name: FILE.into(),
        revision: Some(COMMIT.into()),
    };
    let pulled = pull(&request, &settings, &mut |event| match event {
        PullEvent::Start { size, .. } => {
            assert_eq!(size, 300_000);
            received = 0;
        }
        PullEvent::Advance(bytes) => received += bytes,
        PullEvent::Done { .. } => done = true,
        PullEvent::Verify { .. } => {}
    })
    .unwrap();
    assert!(done);
    assert_eq!(received, 300_000);
    assert_eq!(pulled.commit, COMMIT);
    let root = settings.cache.join("models--me--model");
    assert_eq!(
        pulled.path,
        root.join("snapshots")
            .join(COMMIT)
            .join("weights.safetensors")
    );
    let blob = root.join("blobs").join(&large(300_000).etag);
    assert_eq!(
        std::fs::canonicalize(&pulled.path).unwrap(),
        std::fs::canonicalize(&blob).unwrap()
    );
    assert_eq!(std::fs::read(&blob).unwrap(), large(300_000).content);

    // Again: found and checked, nothing asked of the network.
    let asked = hub.log.lock().unwrap().len();
    let offline = HubSettings {
        offline: true,
        ..settings
    };
    assert_eq!(
        pull(&request, &offline, &mut |_| {}).unwrap().path,
        pulled.path
    );
    assert_eq!(hub.log.lock().unwrap().len(), asked);
}

#[test]
fn a_broken_connection_is_continued() {
    let file = Served {
        breaks: vec![100_000, 50_000],
        ..large(300_000)
    };
    let hub = Hub::start(&[("weights.safetensors", file)], None);
    let home = tempfile::tempdir().unwrap();
    let pulled = fetch(FILE, &settings(&hub, home.path())).unwrap();
    assert_eq!(std::fs::read(pulled.path).unwrap(), large(300_000).content);
    let ranges = hub.ranges("weights.safetensors");
    assert!(ranges.contains(&"bytes=100000-".to_string()), "{ranges:?}");
    assert!(ranges.contains(&"bytes=150000-".to_string()), "{ranges:?}");
}

#[test]
fn a_later_run_continues() {
    let file = Served {
        breaks: vec![120_000, 0, 0, 0, 0, 0],
        ..large(300_000)
    };
    let hub = Hub::start(&[("weights.safetensors", file)], None);
    let home = tempfile::tempdir().unwrap();
    let settings = settings(&hub, home.path());
    let error = fetch(FILE, &settings).unwrap_err();
    assert!(matches!(error, HubError::Network { .. }), "{error:?}");
    assert!(
        chain(&error).contains("run the same command again"),
        "{error}"
    );
    hub.files
        .lock()
        .unwrap()
        .get_mut("weights.safetensors")
        .unwrap()
        .breaks
        .clear();
    let pulled = fetch(FILE, &settings).unwrap();
    assert_eq!(std::fs::read(pulled.path).unwrap(), large(300_000).content);
    assert_eq!(
        hub.ranges("weights.safetensors").last().unwrap(),
        "bytes=120000-"
    );
}

#[test]
fn a_complete_part_is_finished() {
    let hub = Hub::start(&[("weights.safetensors", large(1000))], None);
    let home = tempfile::tempdir().unwrap();
    let settings = settings(&hub, home.path());
    let blobs = settings.cache.join("models--me--model/blobs");
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::write(
        blobs.join(large(1000).etag).with_extension("part"),
        &large(1000).content,
    )
    .unwrap();
    let pulled = fetch(FILE, &settings).unwrap();
    assert_eq!(std::fs::read(pulled.path).unwrap(), large(1000).content);
    assert_eq!(hub.ranges("weights.safetensors"), ["bytes=0-0"]);
}

#[test]
fn a_rotten_part_is_fetched_anew() {
    let hub = Hub::start(&[("weights.safetensors", large(1000))], None);
    let home = tempfile::tempdir().unwrap();
    let settings = settings(&hub, home.path());
    let blobs = settings.cache.join("models--me--model/blobs");
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::write(
        blobs.join(large(1000).etag).with_extension("part"),
        [9; 500],
    )
    .unwrap();
    let pulled = fetch(FILE, &settings).unwrap();
    assert_eq!(std::fs::read(pulled.path).unwrap(), large(1000).content);
}

#[test]
fn a_corrupt_file_is_refused_and_removed() {
    let mut lie = large(1000).content;
    lie[500] ^= 1;
    let file = Served {
        lie: Some(lie),
        ..large(1000)
    };
    let hub = Hub::start(&[("weights.safetensors", file)], None);
    let home = tempfile::tempdir().unwrap();
    let settings = settings(&hub, home.path());
    let error = fetch(FILE, &settings).unwrap_err();
    let HubError::Corrupt {
        expected, found, ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!(expected, &large(1000).etag);
    assert_ne!(found, expected);
    let root = settings.cache.join("models--me--model");
    assert!(!root.join("blobs").join(expected).exists());
    assert!(
        !root
            .join("snapshots")
            .join(COMMIT)
            .join("weights.safetensors")
            .is_symlink()
    );

    // One that rotted on this disk is noticed and fetched anew.
    hub.files
        .lock()
        .unwrap()
        .get_mut("weights.safetensors")
        .unwrap()
        .lie = None;
    let pulled = fetch(FILE, &settings).unwrap();
    std::fs::write(root.join("blobs").join(expected), "rotten").unwrap();
    assert_eq!(fetch(FILE, &settings).unwrap().path, pulled.path);
    assert_eq!(std::fs::read(pulled.path).unwrap(), large(1000).content);
}

#[test]
fn access_needs_a_token() {
    let hub = Hub::start(&[("weights.safetensors", large(10))], Some("hf_good"));
    let home = tempfile::tempdir().unwrap();
    let mut settings = settings(&hub, home.path());
    let error = fetch(FILE, &settings).unwrap_err();
    assert!(
        matches!(
            error,
            HubError::Refused {
                status: 401,
                token: false,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.to_string().contains("HF_TOKEN"), "{error}");
    settings.token = Some("hf_bad".into());
    let error = fetch(FILE, &settings).unwrap_err();
    assert!(
        matches!(
            error,
            HubError::Refused {
                status: 401,
                token: true,
                ..
            }
        ),
        "{error:?}"
    );
    settings.token = Some("hf_good".into());
    fetch(FILE, &settings).unwrap();
}

#[test]
fn what_is_not_there() {
    let hub = Hub::start(&[], None);
    let home = tempfile::tempdir().unwrap();
    let mut settings = settings(&hub, home.path());
    let error = fetch(FILE, &settings).unwrap_err();
    assert!(matches!(error, HubError::Missing { .. }), "{error:?}");
    settings.offline = true;
    let error = fetch(FILE, &settings).unwrap_err();
    assert!(error.to_string().contains("HF_HUB_OFFLINE"), "{error}");
    settings.offline = false;
    // Nobody listens on the port that was just given back.
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    settings.endpoint = format!("http://{free}");
    let error = fetch(FILE, &settings).unwrap_err();
    assert!(matches!(error, HubError::Network { .. }), "{error:?}");
    let request = PullRequest {
        name: "sd16".into(),
        revision: None,
    };
    let error = pull(&request, &settings, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("sd15, sdxl-base"), "{error}");
}

#[test]
fn a_mirror_with_another_file_than_the_known_one() {
    let hub = Hub::start(&[("diffusion_pytorch_model.safetensors", large(10))], None);
    let home = tempfile::tempdir().unwrap();
    let request = PullRequest {
        name: "sd-vae-ft-mse".into(),
        revision: None,
    };
    let error = pull(&request, &settings(&hub, home.path()), &mut |_| {}).unwrap_err();
    let HubError::Other {
        expected, found, ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!(found, &large(10).etag);
    assert_ne!(found, expected);
    assert!(
        hub.ranges(".safetensors")
            .iter()
            .all(|range| range == "bytes=0-0"),
        "nothing is downloaded"
    );
}

#[test]
fn a_diffusers_folder() {
    // Git's hashes of these contents.
    let small = |text: &str, etag: &str| Served {
        content: text.into(),
        etag: etag.into(),
        ..Served::default()
    };
    let hub = Hub::start(
        &[
            (
                "model_index.json",
                small("{}", "9e26dfeeb6e641a33dae4961196235bdb965b21b"),
            ),
            (
                "README.md",
                small("# hello", "3b439713f220fdfebf388cd628a89c397c604423"),
            ),
            (
                "unet/config.json",
                small("{\"a\": 1}", "4a036f56bb619924ec4189bd84ed716c766971ae"),
            ),
            ("unet/diffusion_pytorch_model.safetensors", large(2000)),
            ("unet/diffusion_pytorch_model.fp16.safetensors", large(1000)),
        ],
        None,
    );
    let home = tempfile::tempdir().unwrap();
    let settings = settings(&hub, home.path());
    let pulled = fetch("me/model", &settings).unwrap();
    assert_eq!(
        pulled.path,
        settings
            .cache
            .join("models--me--model/snapshots")
            .join(COMMIT)
    );
    assert_eq!(pulled.files.len(), 3);
    assert!(
        pulled
            .path
            .join("unet/diffusion_pytorch_model.safetensors")
            .exists()
    );
    assert!(!pulled.path.join("README.md").exists());

    // A part without weights: nothing is downloaded.
    let hub = Hub::start(
        &[
            ("model_index.json", large(10)),
            ("vae/config.json", large(10)),
            ("vae/flax_model.msgpack", large(10)),
        ],
        None,
    );
    let settings = HubSettings {
        endpoint: hub.endpoint.clone(),
        ..settings
    };
    let error = fetch("me/model", &settings).unwrap_err();
    assert!(matches!(&error, HubError::NoWeights { part, .. } if part == "vae"));
    assert_eq!(hub.log.lock().unwrap().len(), 1);

    let hub = Hub::start(&[("a.safetensors", large(10))], None);
    let settings = HubSettings {
        endpoint: hub.endpoint.clone(),
        ..settings
    };
    let error = fetch("me/model", &settings).unwrap_err();
    assert!(
        error.to_string().contains("me/model/FILE: a.safetensors"),
        "{error}"
    );
}
