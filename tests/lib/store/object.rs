//! Object stores: in memory, and behind a gateway that fails on purpose.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prepose::store::{ObjectStore, Store};

use super::battery;
use crate::support::gateway::{Answer, Gateway};

pub fn variables(pairs: &[(&str, &str)]) -> HashMap<String, String> {
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
pub fn told(error: prepose::store::StoreError) -> String {
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
        assert!(start.elapsed() < Duration::from_secs(25), "{code}");
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
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );

    let gateway = Gateway::start(|_| Some(Answer::Silence));
    let start = Instant::now();
    let error = ObjectStore::open_with("s3://bucket/run", near(&gateway, "3s"));
    let text = told(error.err().unwrap());
    assert!(text.contains("the store does not answer"), "{text}");
    assert!(
        start.elapsed() < Duration::from_secs(60),
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
