//! Foreign files of the checker: damaged ones are refused or read, and what is written of what was read is read as the
//! same.

use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::audit::{labels, table};
use crate::json;
use crate::run_lengths::RunLengths;
use crate::spatialbench::{CheckerConfig, read_records, write_records};

/// The same cases each time.
fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::with_cases(1000)
    }
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name);
    std::fs::read_to_string(path).unwrap()
}

/// `text` with some of its characters replaced, and perhaps cut short.
fn damaged(text: String) -> impl Strategy<Value = String> {
    let sign = prop::sample::select(
        "\"{}[]:,-.0123456789eE\n\r\t #&*!|>'%@`\\\u{0}é犬ntf"
            .chars()
            .collect::<Vec<_>>(),
    );
    let changes = prop::collection::vec((any::<prop::sample::Index>(), sign), 0..6);
    (changes, any::<prop::sample::Index>(), any::<bool>()).prop_map(move |(changes, end, cut)| {
        let mut text: Vec<char> = text.chars().collect();
        for (at, sign) in changes {
            let at = at.index(text.len());
            text[at] = sign;
        }
        if cut {
            text.truncate(end.index(text.len()));
        }
        text.into_iter().collect()
    })
}

fn lines(name: &str, count: usize) -> String {
    fixture(name)
        .lines()
        .take(count)
        .map(|line| format!("{line}\n"))
        .collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn records(text in damaged(lines("spatialbench-uc/sd15_promptonly/eval/per_sample.jsonl", 2))) {
        if let Ok(records) = read_records(&text) {
            let written = write_records(&records).unwrap();
            prop_assert_eq!(write_records(&read_records(&written).unwrap()).unwrap(), written);
        }
    }

    #[test]
    fn checker_configs(text in damaged(fixture("spatialbench-uc/sd15_promptonly/eval/checker_config.yaml"))) {
        if let Ok(config) = CheckerConfig::from_yaml(&text) {
            prop_assert_eq!(CheckerConfig::from_yaml(&config.to_yaml()).unwrap(), config);
        }
    }

    #[test]
    fn audit_tables(text in damaged(lines("audit/sample.csv", 4))) {
        if let Ok(rows) = table::read(&text) {
            let written = String::from_utf8(table::write(&rows).unwrap()).unwrap();
            prop_assert_eq!(table::read(&written).unwrap().len(), rows.len());
        }
    }

    #[test]
    fn audit_labels(text in damaged(fixture("audit/labels_filled.json"))) {
        let _ = labels::read(&text);
    }

    #[test]
    fn run_lengths(height in 0usize..40, width in 0usize..40, counts in "[0-9:;<=>?@A-Za-z_`]{0,12}") {
        let text = serde_json::json!({"size": [height, width], "counts": counts});
        if let Ok(mask) = serde_json::from_value::<RunLengths>(text).unwrap().unpack() {
            prop_assert_eq!(RunLengths::pack(&mask).unpack().unwrap(), mask);
        }
    }

    #[test]
    fn any_text_will_do(text in any::<String>()) {
        let _ = (read_records(&text), CheckerConfig::from_yaml(&text), table::read(&text), labels::read(&text));
        let _ = json::from_str::<serde_json::Value>(&text);
    }
}
