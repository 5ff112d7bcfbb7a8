//! Object stores: in memory, behind a gateway that fails on purpose, and real ones.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prepose::store::{ObjectStore, Store};

use super::battery;
use crate::gateway::{Answer, Gateway};

fn variables(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    let pairs = pairs
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()));
    pairs.collect()
}

fn near(gateway: &Gateway, patience: &str) -> HashMap<String, String> {
    variables(&[
        ("AWS_ENDPOINT_URL", &gateway.url),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_TIMEOUT", "1s"),
        ("PREPOSE_STORE_PATIENCE", patience),
    ])
}

fn open(gateway: &Gateway, patience: &str) -> ObjectStore {
    ObjectStore::open_with("s3://bucket/run", near(gateway, patience)).unwrap()
}

/// The whole text of an error, which must be one line.
fn told(error: prepose::store::StoreError) -> String {
    let text = format!("{:#}", anyhow::Error::from(error));
    assert!(!text.contains('\n'), "{text}");
    text
}

#[test]
fn memory_keeps_its_promises() {
    let store = ObjectStore::open("memory://promises/run").unwrap();
    assert_eq!(store.location(), "memory://promises/run");
    battery::promises(&store);
    let store: Arc<dyn Store> = Arc::new(store);
    assert_eq!(battery::winners(&store), [1; 10]);
    store.put("x", b"1").unwrap();
    let again = prepose::store::open("memory://promises/run").unwrap();
    assert_eq!(again.get("x").unwrap().unwrap(), b"1");
    let above = prepose::store::open("memory://promises").unwrap();
    assert_eq!(above.get("run/x").unwrap().unwrap(), b"1");
}

#[test]
fn a_gateway_keeps_the_promises() {
    let gateway = Gateway::start(|_| None);
    battery::promises(&open(&gateway, "10s"));
    // Trials are removed.
    assert!(gateway.names().is_empty(), "{:?}", gateway.names());
    let store: Arc<dyn Store> = Arc::new(open(&gateway, "10s"));
    assert_eq!(battery::winners(&store), [1; 10]);
}

#[test]
fn a_store_that_overwrites_is_found_out() {
    let gateway = Gateway::start(|_| None);
    gateway.overwrite();
    let store = open(&gateway, "10s");
    battery::promises(&store);
    assert!(gateway.names().is_empty(), "{:?}", gateway.names());

    // And one that does not know how.
    let gateway = Gateway::start(|request| {
        request
            .create
            .then_some(Answer::Error(501, "NotImplemented"))
    });
    battery::promises(&open(&gateway, "10s"));
}

#[test]
fn what_can_pass_is_tried_again() {
    // Every third request fails, each time in another way.
    let gateway = Gateway::start(|request| match (request.number % 3, request.number % 7) {
        (2, 0) => Some(Answer::Error(500, "InternalError")),
        (2, 1) => Some(Answer::Error(503, "SlowDown")),
        (2, 2) => Some(Answer::Error(429, "TooManyRequests")),
        (2, 3) => Some(Answer::Hangup),
        (2, 4) => Some(Answer::DoneThenHangup),
        (2, 5) => Some(Answer::Error(409, "OperationAborted")),
        (2, 6) => Some(Answer::Half),
        _ => None,
    });
    let store = open(&gateway, "60s");
    for i in 0..20 {
        let name = format!("f/{i}");
        assert!(store.put_new(&name, &[i; 100]).unwrap(), "{i}");
        assert!(!store.put_new(&name, &[i + 1; 100]).unwrap(), "{i}");
        assert_eq!(store.get(&name).unwrap().unwrap(), [i; 100]);
    }
    assert_eq!(store.list("f").unwrap().len(), 20);
    let names: Vec<_> = (0..20).map(|i| format!("f/{i}")).collect();
    assert!(store.get_all(&names).unwrap().iter().all(Option::is_some));
    store.remove_all(&names).unwrap();
    assert!(gateway.names().is_empty());
}

#[test]
fn what_cannot_pass_is_said_at_once() {
    let cases = [
        (
            403,
            "QuotaExceeded",
            "the quota is used up; make room or have it raised",
        ),
        (
            403,
            "InvalidAccessKeyId",
            "the store does not know this key; see AWS_ACCESS_KEY_ID",
        ),
        (
            403,
            "SignatureDoesNotMatch",
            "the secret is wrong; see AWS_SECRET_ACCESS_KEY",
        ),
        (
            403,
            "AccessDenied",
            "these credentials may not do that in bucket",
        ),
        (403, "UserSuspended", "the account is suspended"),
        (
            403,
            "RequestTimeTooSkewed",
            "the clock of this machine is wrong",
        ),
        (400, "ExpiredToken", "the credentials have expired"),
        (
            400,
            "AuthorizationHeaderMalformed",
            "in another region; see AWS_REGION",
        ),
        (301, "", "in another region; see AWS_REGION"),
        (
            404,
            "NoSuchBucket",
            "there is no bucket bucket; make it first",
        ),
    ];
    for (status, code, wanted) in cases {
        let gateway = Gateway::start(move |request| {
            (request.path.ends_with("/x")).then_some(Answer::Error(status, code))
        });
        let store = open(&gateway, "30s");
        let start = Instant::now();
        let put = told(store.put("x", b"1").unwrap_err());
        let get = told(store.get("x").unwrap_err());
        let new = told(store.put_new("x", b"1").unwrap_err());
        assert!(start.elapsed() < Duration::from_secs(5), "{code}");
        for text in [put, get, new] {
            assert!(text.contains(wanted), "{text}");
            assert!(text.contains("x in s3://bucket/run"), "{text}");
        }
        // And when the store is opened.
        let gateway = Gateway::start(move |_| Some(Answer::Error(status, code)));
        let error = ObjectStore::open_with("s3://bucket/run", near(&gateway, "30s"));
        let text = told(error.err().unwrap());
        assert!(text.contains("cannot use s3://bucket/run: "), "{text}");
        assert!(text.contains(wanted), "{text}");
    }
}

#[test]
fn silence_ends() {
    let gateway =
        Gateway::start(|request| (request.path.ends_with("/x")).then_some(Answer::Silence));
    let store = open(&gateway, "3s");
    let start = Instant::now();
    let text = told(store.put("x", b"1").unwrap_err());
    assert!(
        text.contains("the store does not answer at http://127.0.0.1:"),
        "{text}"
    );
    assert!(
        text.contains("AWS_ENDPOINT_URL right, and the store up?"),
        "{text}"
    );
    assert!(
        start.elapsed() < Duration::from_secs(6),
        "{:?}",
        start.elapsed()
    );

    let gateway = Gateway::start(|_| Some(Answer::Silence));
    let start = Instant::now();
    let error = ObjectStore::open_with("s3://bucket/run", near(&gateway, "3s"));
    let text = told(error.err().unwrap());
    assert!(text.contains("the store does not answer"), "{text}");
    assert!(
        start.elapsed() < Duration::from_secs(6),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn nobody_there_is_said() {
    let mut variables = near(&Gateway::start(|_| None), "2s");
    // A port that nobody has.
    variables.insert("AWS_ENDPOINT_URL".into(), "http://127.0.0.1:1".into());
    let text = told(
        ObjectStore::open_with("s3://bucket/run", variables)
            .err()
            .unwrap(),
    );
    assert!(text.contains("the store cannot be reached ("), "{text}");
    assert!(text.contains("refused"), "{text}");
    assert!(text.contains("http://127.0.0.1:1,"), "{text}");
    let text = told(
        ObjectStore::open_with("gs2://x", HashMap::new())
            .err()
            .unwrap(),
    );
    assert!(
        text.contains("the stores are s3://, gs:// and az://"),
        "{text}"
    );
    let wrong = variables_with_patience("soon");
    let text = told(ObjectStore::open_with("memory://x", wrong).err().unwrap());
    assert!(text.contains("write 30s or 3m"), "{text}");
}

fn variables_with_patience(patience: &str) -> HashMap<String, String> {
    variables(&[("PREPOSE_STORE_PATIENCE", patience)])
}

/// A real server: at the location in PREPOSE_TEST_STORE, with the environment's credentials; PREPOSE_TEST_CONTROL is a
/// command that takes it down and so on.
mod real {
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn location(folder: &str) -> String {
        let root =
            std::env::var("PREPOSE_TEST_STORE").expect("PREPOSE_TEST_STORE=s3://bucket/folder");
        format!("{root}/{folder}")
    }

    fn with(
        folder: &str,
        pairs: &[(&str, &str)],
    ) -> Result<ObjectStore, prepose::store::StoreError> {
        let mut all: HashMap<_, _> = std::env::vars().collect();
        all.extend(variables(pairs));
        ObjectStore::open_with(&location(folder), all)
    }

    fn control(order: &str) {
        let command = std::env::var("PREPOSE_TEST_CONTROL").expect("PREPOSE_TEST_CONTROL=command");
        let done = Command::new("bash")
            .arg("-c")
            .arg(format!("{command} {order}"))
            .status();
        assert!(done.unwrap().success(), "{order}");
    }

    #[test]
    #[ignore = "needs a server"]
    fn promises() {
        let store = with("promises", &[]).unwrap();
        battery::promises(&store);
        println!("promises kept by {}", store.location());
    }

    #[test]
    #[ignore = "needs a server"]
    fn race() {
        let store: Arc<dyn Store> = Arc::new(with("race", &[]).unwrap());
        let wins = battery::winners(&store);
        println!("winners of 8 writers in 10 rounds: {wins:?}");
        if std::env::var("PREPOSE_TEST_CONDITIONAL").is_ok_and(|value| value == "yes") {
            assert_eq!(wins, [1; 10]);
        }
    }

    #[test]
    #[ignore = "needs a server"]
    fn many() {
        let store = with("many", &[]).unwrap();
        let count = 2500;
        let names: Vec<_> = (0..count).map(|i| format!("samples/{i:06}.json")).collect();
        let start = Instant::now();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                        assert!(store.put_new(name, name.repeat(20).as_bytes()).unwrap());
                    }
                });
            }
        });
        let written = start.elapsed();
        let start = Instant::now();
        assert_eq!(store.list("samples").unwrap().len(), count);
        let listed = start.elapsed();
        let start = Instant::now();
        let read = store.get_all(&names).unwrap();
        let got = start.elapsed();
        for (name, bytes) in names.iter().zip(read) {
            assert_eq!(bytes.unwrap(), name.repeat(20).as_bytes());
        }
        let start = Instant::now();
        store.remove_all(&names).unwrap();
        let removed = start.elapsed();
        assert!(store.list("").unwrap().is_empty());
        println!(
            "{count} files: written in {written:.1?}, listed in {listed:.1?}, read in {got:.1?}, removed in {removed:.1?}"
        );
    }

    #[test]
    #[ignore = "needs a server that can be taken down"]
    fn killed_and_back() {
        let store = with("killed", &[("PREPOSE_STORE_PATIENCE", "60s")]).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                control("kill");
                std::thread::sleep(Duration::from_secs(2));
                control("start");
            });
            let start = Instant::now();
            let mut i = 0;
            while i < 300 || start.elapsed() < Duration::from_secs(5) {
                assert!(
                    store.put_new(&format!("f/{i:04}"), &[1; 3000]).unwrap(),
                    "{i}"
                );
                i += 1;
            }
            println!(
                "{i} files written while the gateway was killed and came back, in {:.1?}",
                start.elapsed()
            );
            let files = store.list("f").unwrap();
            assert_eq!(files.len(), i);
            let names: Vec<_> = files.into_iter().map(|file| file.name).collect();
            store.remove_all(&names).unwrap();
        });
    }

    #[test]
    #[ignore = "needs a server that can be taken down"]
    fn gone() {
        let store = with("gone", &[("PREPOSE_STORE_PATIENCE", "3s")]).unwrap();
        control("kill");
        let put = store.put("x", b"1");
        let opened = with("gone", &[("PREPOSE_STORE_PATIENCE", "3s")]);
        control("start");
        for text in [told(put.unwrap_err()), told(opened.err().unwrap())] {
            assert!(text.contains("cannot be reached"), "{text}");
            println!("{text}");
        }
        store.put("x", b"1").unwrap();
        store.remove("x").unwrap();
    }

    #[test]
    #[ignore = "needs a server that can be taken down"]
    fn hang() {
        let quick = [("AWS_TIMEOUT", "2s"), ("PREPOSE_STORE_PATIENCE", "5s")];
        let store = with("hang", &quick).unwrap();
        control("stop");
        let start = Instant::now();
        let put = store.put("x", b"1");
        let took = start.elapsed();
        control("continue");
        let text = told(put.unwrap_err());
        assert!(text.contains("does not answer"), "{text}");
        assert!(took < Duration::from_secs(9), "{took:?}");
        println!("after {took:.1?}: {text}");

        let patient = [("AWS_TIMEOUT", "2s"), ("PREPOSE_STORE_PATIENCE", "60s")];
        let store = with("hang", &patient).unwrap();
        control("stop");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_secs(5));
                control("continue");
            });
            let start = Instant::now();
            assert!(store.put_new("y", b"1").unwrap());
            println!("a hang of 5 s: written after {:.1?}", start.elapsed());
        });
        store.remove_all(&["x".into(), "y".into()]).unwrap();
    }

    #[test]
    #[ignore = "needs a server with quotas"]
    fn quota() {
        let store = with("quota", &[]).unwrap();
        control("quota-on");
        // It comes into force a little later.
        let failed = (0..2000).find_map(|i| store.put(&format!("f/{i:04}"), b"1").err());
        control("quota-off");
        let text = told(failed.expect("an error"));
        assert!(
            text.contains("403 QuotaExceeded: the quota is used up"),
            "{text}"
        );
        println!("{text}");
        // The quota is remembered for a moment.
        let start = Instant::now();
        while store.put("f/again", b"1").is_err() {
            assert!(start.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(500));
        }
        let files = store.list("").unwrap().into_iter();
        let names: Vec<_> = files.map(|file| file.name).collect();
        store.remove_all(&names).unwrap();
    }

    #[test]
    #[ignore = "needs a server"]
    fn denied() {
        for (name, value, wanted) in [
            ("AWS_SECRET_ACCESS_KEY", "wrong", "the secret is wrong"),
            (
                "AWS_ACCESS_KEY_ID",
                "WRONG",
                "the store does not know this key",
            ),
        ] {
            let text = told(with("x", &[(name, value)]).err().unwrap());
            assert!(text.contains(wanted), "{text}");
            println!("{text}");
        }
        let all: HashMap<_, _> = std::env::vars().collect();
        let text = told(
            ObjectStore::open_with("s3://no-such-bucket-here/x", all)
                .err()
                .unwrap(),
        );
        assert!(
            text.contains("there is no bucket no-such-bucket-here"),
            "{text}"
        );
        println!("{text}");
    }

    #[test]
    #[ignore = "needs a server with accounts that can be suspended"]
    fn suspended() {
        let store = with("suspended", &[]).unwrap();
        control("suspend");
        let failed = store.put("x", b"1");
        control("enable");
        let text = told(failed.unwrap_err());
        assert!(text.contains("the account is suspended"), "{text}");
        println!("{text}");
    }
}
