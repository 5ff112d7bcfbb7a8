//! The sets of prompts against what their authors released, and files of one's own, wrong ones first.

mod changed;
mod files;
mod given;
mod released;
mod sound;
mod wrong;

use prepose::suite::Suite;
use prepose::suite::sets;

fn original(name: &str) -> String {
    sets::find(name).unwrap().original().unwrap()
}

fn suite(name: &str) -> Suite {
    sets::open(name).unwrap()
}
