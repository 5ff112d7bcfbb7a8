//! Downloads from servers, and into caches, that mean harm.

#[cfg(unix)]
mod links;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prepose_weights::hub::{
    HubError, HubSettings, PullRequest, Pulled, Timeouts, TransferError, pull,
};

use crate::support::chain;
use crate::support::hostile::{Asked, Hostile, Reply, file, redirect, reply};
use crate::support::server::COMMIT;

const FILE: &str = "me/model/weights.safetensors";
const TOKEN: &str = "hf_SECRET";
/// An etag that is no hash, so that only sizes can be compared.
const ETAG: &str = "opaque";

fn content() -> Vec<u8> {
    (0..3000).map(|i| (i * 7 % 251) as u8).collect()
}

/// The SHA-256 of [`content`].
fn sha256() -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, content()).unwrap();
    prepose_weights::sha256_file(file.path()).unwrap()
}

/// A cache and a file of the user's beside it.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("mine")).unwrap();
        fs::write(folder.path().join("mine/thesis.txt"), "years of work").unwrap();
        Self { folder }
    }

    fn mine(&self) -> PathBuf {
        self.folder.path().join("mine")
    }

    fn thesis(&self) -> PathBuf {
        self.mine().join("thesis.txt")
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// A path in the repository's part of the cache, its folders made.
    fn cached(&self, path: &str) -> PathBuf {
        let path = self.cache().join("models--me--model").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn settings(&self, endpoint: &str) -> HubSettings {
        HubSettings {
            cache: self.cache(),
            endpoint: endpoint.into(),
            token: Some(TOKEN.into()),
            offline: false,
            timeouts: Timeouts {
                pause: Duration::from_millis(1),
                ..Timeouts::default()
            },
        }
    }

    fn pull(&self, server: &Hostile, name: &str) -> Result<Pulled, HubError> {
        pull_with(&self.settings(&server.endpoint), name, "main")
    }

    /// Fails unless what is the user's is as it was.
    fn is_unharmed(&self) {
        assert_eq!(fs::read_to_string(self.thesis()).unwrap(), "years of work");
        assert_eq!(fs::read_dir(self.mine()).unwrap().count(), 1);
        let beside: Vec<_> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name != "mine" && name != "cache")
            .collect();
        assert!(beside.is_empty(), "{beside:?}");
    }

    /// Fails if anything got a name.
    fn has_no_file(&self) {
        for folder in ["blobs", "snapshots"] {
            let folder = self.cache().join("models--me--model").join(folder);
            let names = fs::read_dir(folder).into_iter().flatten();
            let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
            let named = |name: &&std::ffi::OsString| !name.to_string_lossy().ends_with(".part");
            assert_eq!(names.iter().find(named), None);
        }
    }
}

fn pull_with(settings: &HubSettings, name: &str, revision: &str) -> Result<Pulled, HubError> {
    let request = PullRequest {
        name: name.into(),
        revision: Some(revision.into()),
    };
    pull(&request, settings, &mut |_| {})
}

/// The whole message, which must hold no secret and no control character.
fn message(error: &HubError) -> String {
    let message = chain(error);
    assert!(!message.contains("SECRET"), "{message}");
    assert!(!message.contains(char::is_control), "{message:?}");
    assert!(message.len() < 1000, "{message}");
    message
}

fn honest(asked: &Asked) -> Reply {
    file(asked, &content(), &sha256())
}

#[test]
fn the_token_goes_to_the_named_host_only() {
    let other = Hostile::start(honest);
    let port = other.endpoint.rsplit(':').next().unwrap().to_string();
    for target in [
        format!("{}/file?X-Signature=abc", other.endpoint),
        format!("http://localhost:{port}/file"),
        format!("//127.0.0.1:{port}/file"),
    ] {
        let to = target.clone();
        let hub = Hostile::start(move |_| redirect(&to, &sha256()));
        let home = Home::new();
        let pulled = home.pull(&hub, FILE).unwrap();
        assert_eq!(fs::read(pulled.path).unwrap(), content());
        assert_eq!(
            hub.secrets(),
            vec![format!("Bearer {TOKEN}"); 2],
            "{target}"
        );
        assert!(other.secrets().is_empty(), "{target}");
    }
    assert!(other.asked().len() >= 6);

    // The list of files, too.
    let listing = format!(r#"{{"sha": "{COMMIT}", "siblings": []}}"#);
    let other = Hostile::start(move |_| reply("200 OK", &[], listing.as_bytes()));
    let to = format!("{}/list", other.endpoint);
    let hub = Hostile::start(move |_| redirect(&to, ETAG));
    let error = Home::new().pull(&hub, "me/model").unwrap_err();
    assert!(matches!(error, HubError::Choose { .. }), "{error:?}");
    assert!(!hub.secrets().is_empty() && other.asked().len() == 1);
    assert!(other.secrets().is_empty());
}

#[test]
fn the_token_stays_on_a_way_through_the_same_host() {
    let hub = Hostile::start(|asked| match asked.path.starts_with("/moved") {
        true => honest(asked),
        false => redirect("/moved/here", ETAG),
    });
    let home = Home::new();
    home.pull(&hub, FILE).unwrap();
    assert_eq!(hub.secrets().len(), hub.asked().len());
}

#[test]
fn credentials_in_addresses_are_sent_to_their_host_and_never_shown() {
    let other = Hostile::start(|_| reply("500 Broken", &[], b""));
    let to = format!("{}/file?key=SECRET", other.endpoint);
    let hub = Hostile::start(move |_| redirect(&to, ETAG));
    let home = Home::new();
    let mut settings = home.settings(&hub.endpoint.replace("://", "://me:SECRET@"));
    settings.token = None;
    let error = pull_with(&settings, FILE, "main").unwrap_err();
    let text = message(&error);
    assert!(
        text.contains("***@127.0.0.1") && text.contains("500"),
        "{text}"
    );
    assert!(
        hub.secrets()
            .iter()
            .all(|secret| secret.starts_with("Basic "))
    );
    assert!(!hub.secrets().is_empty() && other.secrets().is_empty());

    // Nobody listens on the port that was just given back.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    for endpoint in [
        format!("http://me:SECRET@{address}/base?SECRET"),
        format!("me:SECRET@{address}"),
        "http://me:SECRET@".into(),
        "ftp://me:SECRET@host/".into(),
        "http://me:SEC RET@host/".into(),
    ] {
        settings.endpoint = endpoint;
        message(&pull_with(&settings, FILE, "main").unwrap_err());
        message(&pull_with(&settings, "me/model", "main").unwrap_err());
        let request = PullRequest {
            name: "me/model".into(),
            revision: None,
        };
        message(&pull(&request, &settings, &mut |_| {}).unwrap_err());
    }
    settings.token = Some("hf_SECRET\r\nX-Other: 1".into());
    settings.endpoint = hub.endpoint.clone();
    let error = pull_with(&settings, FILE, "main").unwrap_err();
    assert!(matches!(error, HubError::Token), "{error:?}");
    message(&error);
}

#[test]
fn redirects_lead_somewhere_and_end() {
    for (location, wanted) in [
        (None, "a redirect without a target"),
        (Some("ftp://127.0.0.1/file"), "an unusable address"),
        (Some("file:///etc/passwd"), "an unusable address"),
        (Some("http://"), "an unusable address"),
        (Some("/again"), "more than 10 redirects"),
    ] {
        let hub = Hostile::start(move |_| match location {
            Some(location) => redirect(location, ETAG),
            None => reply("302 Found", &[("ETag", ETAG)], b""),
        });
        let home = Home::new();
        for name in [FILE, "me/model"] {
            let error = home.pull(&hub, name).unwrap_err();
            assert!(matches!(error, HubError::Answer { .. }), "{error:?}");
            assert!(message(&error).contains(wanted), "{error}");
        }
        assert!(hub.asked().len() <= 22, "{}", hub.asked().len());
        home.has_no_file();
    }
}

#[test]
fn silence_has_an_end() {
    let hang = |bytes: &[u8]| Reply {
        bytes: bytes.to_vec(),
        hang: true,
    };
    let half_head = b"HTTP/1.1 206 Partial Content\r\nETag: ";
    let list = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"sha\"";
    for bytes in [&b""[..], half_head, list] {
        let hub = Hostile::start(move |_| hang(bytes));
        let home = Home::new();
        let mut settings = home.settings(&hub.endpoint);
        settings.timeouts = Timeouts::all(Duration::from_millis(500));
        for name in ["me/model", FILE] {
            let silent = bytes != list || name == "me/model";
            let error = pull_with(&settings, name, "main").unwrap_err();
            let is_silent = matches!(
                error,
                HubError::Network {
                    source: TransferError::Silent(_),
                    ..
                }
            );
            assert!(is_silent || !silent, "{error:?}");
            message(&error);
        }
    }

    // In the middle of a file: what has come is kept.
    let hub = Hostile::start(move |asked| match asked.start() {
        Some(0) => {
            let mut reply = honest(asked);
            reply.bytes.truncate(reply.bytes.len() - 1000);
            Reply {
                hang: true,
                ..reply
            }
        }
        Some(_) => hang(b""),
        None => honest(asked),
    });
    let home = Home::new();
    let mut settings = home.settings(&hub.endpoint);
    settings.timeouts = Timeouts::all(Duration::from_millis(500));
    let error = pull_with(&settings, FILE, "main").unwrap_err();
    assert!(
        message(&error).contains("sent nothing for 0.5 s"),
        "{error}"
    );
    home.has_no_file();
    let part = home.cached("blobs").join(sha256()).with_extension("part");
    assert_eq!(fs::read(part).unwrap(), content()[..2000]);
}

#[test]
fn a_file_must_have_the_size_that_was_announced() {
    // Shorter: the connection ends, or another size is stated later, or none.
    let cut = |asked: &Asked| {
        let mut reply = file(asked, &content(), ETAG);
        if asked.start().is_some() {
            reply.bytes.truncate(reply.bytes.len() - 1);
        }
        reply
    };
    let shrunk = |asked: &Asked| match asked.start() {
        Some(_) => file(asked, &content()[..2000], ETAG),
        None => file(asked, &content(), ETAG),
    };
    let unsaid = |asked: &Asked| match asked.start() {
        Some(_) => {
            let headers = [
                ("Content-Range", "bytes 0-2999/3000"),
                ("Content-Length", "0"),
            ];
            reply("206 Partial Content", &headers, b"")
        }
        None => file(asked, &content(), ETAG),
    };
    // Longer.
    let more = |asked: &Asked| match asked.start() {
        Some(_) => {
            let headers = [("Content-Range", "bytes 0-2999/3000")];
            reply("206 Partial Content", &headers, &[0; 4000])
        }
        None => file(asked, &content(), ETAG),
    };
    // From another place than asked for.
    let shifted = |asked: &Asked| match asked.start() {
        Some(_) => {
            let headers = [("Content-Range", "bytes 5-2999/3000")];
            reply("206 Partial Content", &headers, &content()[5..])
        }
        None => file(asked, &content(), ETAG),
    };
    type Server = fn(&Asked) -> Reply;
    let cases: [(Server, &str); 5] = [
        (cut, "broke off"),
        (shrunk, "2000 bytes here and 3000"),
        (unsaid, "only 0 of 3000 bytes"),
        (more, "more than the 3000 bytes"),
        (shifted, "content-range"),
    ];
    for (answer, wanted) in cases {
        let hub = Hostile::start(answer);
        let home = Home::new();
        // Cut once more each time, the last byte never comes.
        let result = home.pull(&hub, FILE);
        let error = result.expect_err(wanted);
        assert!(message(&error).contains(wanted), "{wanted}: {error:?}");
        home.has_no_file();
    }
}

#[test]
fn a_server_without_ranges_will_do() {
    let hub = Hostile::start(|_| {
        let headers = [("ETag", ETAG), ("X-Repo-Commit", COMMIT)];
        reply("200 OK", &headers, &content())
    });
    let home = Home::new();
    // What an earlier try left cannot be continued then.
    fs::write(home.cached("blobs/opaque.part"), "left over").unwrap();
    let pulled = home.pull(&hub, FILE).unwrap();
    assert_eq!(fs::read(pulled.path).unwrap(), content());
}

#[test]
fn names_from_the_server_stay_inside_the_cache() {
    for (name, shown) in [
        ("../../../mine/thesis.txt", "../mine/thesis.txt"),
        ("/etc/passwd", "/etc/passwd"),
        ("unet\\..\\x", "unet"),
        ("unet/\u{1b}[2J", "\\u{1b}[2J"),
        ("unet/a\0b", "\\u{0}"),
        (&"x/".repeat(100_000), "bytes)"),
    ] {
        let listing = serde_json::json!({
            "sha": COMMIT,
            "siblings": [{"rfilename": "model_index.json"}, {"rfilename": name}],
        });
        let listing = listing.to_string();
        let hub = Hostile::start(move |_| reply("200 OK", &[], listing.as_bytes()));
        let home = Home::new();
        let error = home.pull(&hub, "me/model").unwrap_err();
        assert!(message(&error).contains(shown), "{error}");
        home.has_no_file();
        home.is_unharmed();
    }
    for (header, value) in [
        ("ETag", "../../../../mine/thesis.txt"),
        ("ETag", ".."),
        ("ETag", ""),
        ("X-Repo-Commit", "../../../../mine"),
        ("X-Repo-Commit", "main"),
    ] {
        let hub = Hostile::start(move |asked| {
            let mut headers = vec![("Content-Range", "bytes 0-0/3000")];
            headers.push(("ETag", if header == "ETag" { value } else { ETAG }));
            let commit = if header == "ETag" { COMMIT } else { value };
            headers.push(("X-Repo-Commit", commit));
            assert_eq!(asked.start(), None, "nothing is downloaded");
            reply("206 Partial Content", &headers, b"x")
        });
        let home = Home::new();
        let error = home.pull(&hub, FILE).unwrap_err();
        assert!(matches!(error, HubError::Answer { .. }), "{error:?}");
        message(&error);
        home.is_unharmed();
    }
    let huge = Hostile::start(|_| reply("200 OK", &[], &vec![b' '; 17 << 20]));
    let error = Home::new().pull(&huge, "me/model").unwrap_err();
    assert!(message(&error).contains("too long"), "{error}");
}

#[test]
fn revisions_with_paths_are_refused_before_anything_is_asked() {
    let hub = Hostile::start(honest);
    let home = Home::new();
    for revision in [
        "/",
        "..",
        "../../../mine/thesis.txt",
        "/etc/passwd",
        "a/../../b",
        "a\u{1b}[2J",
        "",
        &"a".repeat(100_000),
    ] {
        let error = pull_with(&home.settings(&hub.endpoint), FILE, revision).unwrap_err();
        assert!(matches!(error, HubError::Revision { .. }), "{error:?}");
        message(&error);
    }
    assert!(hub.asked().is_empty());
    home.is_unharmed();
    assert!(!home.cache().exists());
}

#[test]
fn a_commit_is_what_was_asked_for() {
    let hub = Hostile::start(honest);
    let home = Home::new();
    let other = COMMIT.replace('0', "f");
    let error = pull_with(&home.settings(&hub.endpoint), FILE, &other).unwrap_err();
    assert!(
        message(&error).contains(&format!("not of {other}")),
        "{error}"
    );
    home.has_no_file();
}

#[test]
fn a_branch_is_noted_and_found_without_the_network() {
    let hub = Hostile::start(honest);
    let home = Home::new();
    let pulled = home.pull(&hub, FILE).unwrap();
    let noted = fs::read_to_string(home.cached("refs/main")).unwrap();
    assert_eq!(noted, COMMIT);
    let asked = hub.asked().len();
    let mut settings = home.settings(&hub.endpoint);
    settings.offline = true;
    let again = pull_with(&settings, FILE, "main").unwrap();
    assert_eq!(again.path, pulled.path);
    assert_eq!(hub.asked().len(), asked);
    // What is stored already is not fetched again.
    settings.offline = false;
    pull_with(&settings, FILE, "main").unwrap();
    assert!(
        hub.asked()[asked..]
            .iter()
            .all(|asked| asked.start().is_none())
    );
}

#[test]
fn a_small_file_must_have_gits_hash() {
    let etag = "0".repeat(40);
    let hub = Hostile::start(move |asked| file(asked, b"{}", &etag));
    let home = Home::new();
    let error = home.pull(&hub, "me/model/config.json").unwrap_err();
    assert!(matches!(error, HubError::Corrupt { .. }), "{error:?}");
    home.has_no_file();
}

#[test]
fn two_downloads_of_one_file_do_not_mix() {
    let hub = Hostile::start(honest);
    let home = Home::new();
    let part = home.cached("blobs").join(sha256()).with_extension("part");
    fs::create_dir_all(part.parent().unwrap()).unwrap();
    let held = fs::File::create(&part).unwrap();
    held.lock().unwrap();
    let error = home.pull(&hub, FILE).unwrap_err();
    assert!(matches!(error, HubError::Locked { .. }), "{error:?}");
    drop(held);
    home.pull(&hub, FILE).unwrap();
}
