//! The number of threads is no part of a training: its batches go through the network in parts that do not depend on it.

use super::{LORA, provide, read, small};
use crate::program::{prepose, stderr};

#[test]
fn what_comes_out_does_not_depend_on_the_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    provide(folder.path());
    let on = |threads: &str| {
        let own = ["--steps", "2", "--cache", "cache", "--out", threads];
        let mut train = small(&own);
        // Five samples are two parts, and the two that are left are one.
        let batch = train.iter().position(|word| *word == "--batch").unwrap();
        train[batch + 1] = "5";
        let mut command = prepose();
        command.env("RAYON_NUM_THREADS", threads);
        let output = command.args(train).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        read(&folder.path().join(threads), &LORA[..3])
    };
    let one = on("1");
    for threads in ["2", "3", "5"] {
        assert!(on(threads) == one, "{threads} threads");
    }
}
