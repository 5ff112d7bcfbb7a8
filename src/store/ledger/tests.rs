//! Ledgers written, read, damaged and compared.

use super::*;
use crate::LocalStore;

fn listed(store: &LocalStore, files: &[(&str, &str)]) -> Ledger {
    let mut ledger = Ledger::default();
    for (name, text) in files {
        store.put(name, text.as_bytes()).unwrap();
        ledger.insert(*name, Listed::of(text.as_bytes()));
    }
    ledger.take_times(&store.list("").unwrap());
    ledger
}

#[test]
fn it_is_read_as_it_was_written_or_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalStore::new(folder.path());
    assert_eq!(Ledger::read(&store, "").unwrap(), Ledger::default());
    for files in [
        &[][..],
        &[("a", "1")],
        &[("a", "1"), ("b/c \u{e9}", "22\n")],
    ] {
        let mut ledger = listed(&store, files);
        if let Some((name, text)) = files.first() {
            ledger.insert(
                *name,
                Listed {
                    lines: Some("x".into()),
                    text: Some("a\nb".into()),
                    ..Listed::of(text.as_bytes())
                },
            );
        }
        ledger.write(&store).unwrap();
        assert_eq!(Ledger::read(&store, "").unwrap(), ledger);
        // Every byte counts.
        let bytes = store.get(LEDGER).unwrap().unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            store.put(LEDGER, &changed).unwrap();
            let read = Ledger::read(&store, "").unwrap();
            assert!(read.is_empty() && read.damaged().is_some(), "{at}");
            store.put(LEDGER, &bytes[..at]).unwrap();
            assert!(
                Ledger::read(&store, "").unwrap().damaged().is_some(),
                "{at}"
            );
        }
    }
}

#[test]
fn faults_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalStore::new(folder.path());
    let names = [
        "cut",
        "deleted",
        "emptied",
        "fine",
        "folder",
        "longer",
        "x/changed",
    ];
    let ledger = listed(&store, &names.map(|name| (name, "text")));
    store.put("cut", b"t").unwrap();
    store.put("emptied", b"").unwrap();
    store.put("longer", b"text and more").unwrap();
    store.put("x/changed", b"texd").unwrap();
    store.remove("deleted").unwrap();
    store.remove("folder").unwrap();
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    // Written again as it was.
    store.put("fine", b"text").unwrap();
    let there = store.list("").unwrap();
    for look in [Look::Quick, Look::Whole] {
        let found = ledger.faults(&store, "", &there, look, |_| true).unwrap();
        let found: Vec<_> = found.iter().map(Damage::to_string).collect();
        assert_eq!(
            found,
            [
                "cut (cut)",
                "deleted (deleted)",
                "emptied (emptied)",
                "folder (replaced by a folder)",
                "longer (longer)",
                "x/changed (changed)"
            ]
        );
    }
    let found = ledger.faults(&store, "", &there, Look::Quick, |name| name.contains('/'));
    assert_eq!(found.unwrap().len(), 1);
}

#[test]
fn only_a_whole_look_sees_what_hides_behind_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalStore::new(folder.path());
    let mut ledger = listed(&store, &[("a", "text")]);
    store.put("a", b"texd").unwrap();
    let there = store.list("").unwrap();
    ledger.take_times(&there);
    let quick = ledger.faults(&store, "", &there, Look::Quick, |_| true);
    assert_eq!(quick.unwrap(), []);
    let whole = ledger.faults(&store, "", &there, Look::Whole, |_| true);
    assert_eq!(whole.unwrap().len(), 1);
}
