//! The file that keeps compiled kernels: written and read by processes of their own, since CubeCL is configured once in each.

use crate::keep_compiled_kernels;
use cubecl::bundle::{self, BundleFormat};
use cubecl::environment::{self, CacheOption, Namespace, Store, StoreOptions};
use std::path::Path;
use std::process::Command;

/// What a process of its own is to do, and what it is to do it with.
const TASK: &str = "PREPOSE_TEST_CACHE";
const OTHER: &str = "PREPOSE_TEST_CACHE_FILE";

/// Runs the test `name` in a process whose cache folder is `folder`, with `task`.
#[track_caller]
fn run(name: &str, task: &str, folder: &Path, other: &Path) {
    let run = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", name, "--nocapture"])
        .current_dir(folder)
        .env(TASK, task)
        .env(OTHER, other)
        .env("XDG_CACHE_HOME", folder)
        .output()
        .expect("a process");
    let said = String::from_utf8_lossy(&run.stdout);
    let complained = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success() && said.contains("1 passed"),
        "{task}: {said}{complained}"
    );
}

fn store() -> Store<String, Vec<u8>> {
    let options = StoreOptions::new()
        .storage(Namespace::from("prepose-test"))
        .cache(CacheOption::Eager);
    environment::store(options)
}

fn keep(store: &mut Store<String, Vec<u8>>, key: &str, value: &[u8]) {
    let kept = store.insert(key.into(), value.into());
    assert!(kept.is_ok(), "{key}");
}

#[test]
fn what_one_process_keeps_another_finds() {
    const NAME: &str = "tests::cache::what_one_process_keeps_another_finds";
    let Ok(task) = std::env::var(TASK) else {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let [here, there] = [folders[0].path(), folders[1].path()];
        let shipped = there.join("shipped.db");
        run(NAME, "write", here, &shipped);
        run(NAME, "read", here, &shipped);
        run(NAME, "import", there, &shipped);
        return;
    };
    let other = std::env::var_os(OTHER).expect("a path");
    let cache = keep_compiled_kernels().expect("a folder");
    let folder = std::env::current_dir().expect("a folder");
    assert_eq!(cache.file, folder.join("prepose/default.db"));
    match task.as_str() {
        "write" => {
            assert!(cache.entries == 0 && !cache.file.exists());
            assert!(cache.is_usable());
            let mut store = store();
            // A compiled kernel may be of some hundred kilobytes.
            keep(&mut store, "large", &vec![7; 500_000]);
            keep(&mut store, "small", &[]);
            // What is there stays: another process may have been faster.
            assert!(store.insert("small".into(), vec![1]).is_err());
            keep(&mut store, "gone", &[1]);
            store.purge_key(&"gone".into());
            let saved = environment::bundle().save(&other, BundleFormat::Sqlite);
            saved.expect("a bundle");
        }
        "read" => {
            assert_eq!(cache.entries, 2);
            let store = store();
            assert_eq!(store.get(&"large".into()), Some(&vec![7; 500_000]));
            assert_eq!(store.get(&"small".into()), Some(&vec![]));
            assert_eq!(store.get(&"gone".into()), None);
        }
        _ => {
            assert_eq!(cache.entries, 0);
            let shipped = bundle::open(&other).expect("a bundle");
            bundle::import(&*shipped);
            assert_eq!(store().get(&"large".into()), Some(&vec![7; 500_000]));
        }
    }
}

#[test]
fn a_file_that_is_something_else_is_told_and_left_alone() {
    const NAME: &str = "tests::cache::a_file_that_is_something_else_is_told_and_left_alone";
    if std::env::var_os(TASK).is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("prepose/default.db");
        std::fs::create_dir(folder.path().join("prepose")).expect("a folder");
        std::fs::write(&file, "my diary, in which there is nothing of interest").expect("a file");
        run(NAME, "use", folder.path(), &file);
        let text = std::fs::read_to_string(&file).expect("the file");
        assert_eq!(text, "my diary, in which there is nothing of interest");
        return;
    }
    let cache = keep_compiled_kernels().expect("a folder");
    assert!(!cache.is_usable() && cache.entries == 0);
    // It works all the same, in memory.
    let mut store = store();
    keep(&mut store, "small", &[1]);
    assert_eq!(store.get(&"small".into()), Some(&vec![1]));
}
