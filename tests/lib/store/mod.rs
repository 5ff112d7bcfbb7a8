//! Stores: what all of them promise, and what object stores do when something fails.
//!
//! The tests that are ignored need a real server: scripts/cluster/test-store.sh brings several up and runs them.

use std::sync::Arc;

use prepose::store::{LocalStore, Store};

mod battery {
    use super::*;

    /// What every store promises.
    pub fn promises(store: &dyn Store) {
        let names = |folder: &str| -> Vec<(String, u64)> {
            let entries = store.list(folder).unwrap().into_iter();
            entries.map(|entry| (entry.name, entry.bytes)).collect()
        };
        assert_eq!(names(""), []);
        assert_eq!(store.get("a/b.json").unwrap(), None);
        store.put("a/b.json", b"one").unwrap();
        store.put("a/b.json", b"two!").unwrap();
        assert_eq!(store.get("a/b.json").unwrap().unwrap(), b"two!");
        assert!(!store.put_new("a/b.json", b"three").unwrap());
        assert!(store.put_new("a/c.json", b"").unwrap());
        assert_eq!(store.get("a/c.json").unwrap().unwrap(), b"");
        // Only whole names count as folders.
        store.put("ab/x", b"1").unwrap();
        let odd = "a/maps/p_000001-potted plant +100% é~(1).png";
        store.put(odd, &[0, 255, 10]).unwrap();
        assert_eq!(store.get(odd).unwrap().unwrap(), [0, 255, 10]);
        let of_a = [
            ("a/b.json".to_string(), 4),
            ("a/c.json".into(), 0),
            (odd.into(), 3),
        ];
        assert_eq!(names("a"), of_a);
        assert_eq!(names("").len(), 4);
        assert_eq!(names("nothing"), []);
        let several = ["ab/x", "ab/none", odd].map(String::from);
        let read = store.get_all(&several).unwrap();
        assert_eq!(read, [Some(b"1".to_vec()), None, Some(vec![0, 255, 10])]);
        store.remove("ab/x").unwrap();
        store.remove("ab/x").unwrap();
        let rest: Vec<_> = of_a.into_iter().map(|(name, _)| name).collect();
        store.remove_all(&rest).unwrap();
        assert_eq!(names(""), []);
        for wrong in ["", "/x", "../x", "a//b", "a/./b"] {
            assert!(store.put(wrong, b"").is_err(), "{wrong}");
        }
        let big: Vec<u8> = (0..12_000_000_u32).map(|i| (i * 7) as u8).collect();
        store.put("big", &big).unwrap();
        assert!(store.get("big").unwrap().unwrap() == big);
        store.remove("big").unwrap();
    }

    /// How often one of eight writers of the same name is told that it won, in ten rounds.
    pub fn winners(store: &Arc<dyn Store>) -> Vec<usize> {
        let round = |round: usize| {
            let name = &format!("race/{round}");
            let wins = std::thread::scope(|scope| {
                let write = |writer: usize| {
                    move || {
                        store
                            .put_new(name, format!("{writer:08}").as_bytes())
                            .unwrap()
                    }
                };
                let threads: Vec<_> = (0..8).map(|i| scope.spawn(write(i))).collect();
                let wins = threads.into_iter().map(|thread| thread.join().unwrap());
                wins.filter(|won| *won).count()
            });
            assert_eq!(store.get(name).unwrap().unwrap().len(), 8);
            wins
        };
        let wins = (0..10).map(round).collect();
        let names: Vec<_> = (0..10).map(|round| format!("race/{round}")).collect();
        store.remove_all(&names).unwrap();
        wins
    }
}

#[test]
fn a_folder_keeps_its_promises() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalStore::new(&folder.path().join("run"));
    battery::promises(&store);
    let store: Arc<dyn Store> = Arc::new(store);
    assert_eq!(battery::winners(&store), [1; 10]);
}

#[cfg(not(feature = "object-store"))]
#[test]
fn without_object_stores_that_is_said() {
    let error = prepose::store::open("s3://bucket/run").err().unwrap();
    assert!(
        error.to_string().contains("built without object stores"),
        "{error}"
    );
}

#[cfg(feature = "object-store")]
mod object;
#[cfg(feature = "object-store")]
mod real;
