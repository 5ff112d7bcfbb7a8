//! Real servers: at the location in PREPOSE_TEST_STORE, with the environment's credentials. PREPOSE_TEST_CONTROL is a command
//! that takes the server down and so on; scripts/cluster/test-store.sh sets both.

use std::collections::HashMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use prepose::store::{ObjectStore, Store};

use super::battery;
use super::object::{told, variables};

fn location(folder: &str) -> String {
    let root = std::env::var("PREPOSE_TEST_STORE").expect("PREPOSE_TEST_STORE=s3://bucket/folder");
    format!("{root}/{folder}")
}

fn with(folder: &str, pairs: &[(&str, &str)]) -> Result<ObjectStore, prepose::store::StoreError> {
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
