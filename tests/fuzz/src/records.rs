//! Files of the checker: what is written from what was read is read as the same.

use prepose_check::audit::{labels, table};
use prepose_check::sample::Sample;
use prepose_check::spatialbench::{CheckerConfig, read_records, write_records};

use crate::text_of;

/// `per_sample.jsonl` and `samples/*.json`.
pub fn records(bytes: &[u8]) {
    let Some(text) = text_of(bytes) else { return };
    if let Ok(records) = read_records(text) {
        let written = write_records(&records).expect("records are written");
        let again = read_records(&written).expect("what was written is read");
        assert_eq!(write_records(&again).expect("and written"), written);
    }
    if let Ok(sample) = Sample::from_line(text) {
        let written = sample.to_line().expect("samples are written");
        Sample::from_line(&written).expect("what was written is read");
    }
}

/// `checker_config.yaml`.
pub fn checker_config(bytes: &[u8]) {
    let Some(text) = text_of(bytes) else { return };
    if let Ok(config) = CheckerConfig::from_yaml(text) {
        let again = CheckerConfig::from_yaml(&config.to_yaml()).expect("what was written is read");
        assert_eq!(again, config);
    }
}

/// The audit's tables of samples and of labels.
pub fn audit_tables(bytes: &[u8]) {
    let Some(text) = text_of(bytes) else { return };
    let _ = labels::read(text);
    if let Ok(rows) = table::read(text) {
        let written = table::write(&rows).expect("tables are written");
        let written = String::from_utf8(written).expect("tables are text");
        table::read(&written).expect("what was written is read");
    }
}

/// A line of `prepose detect`.
pub fn detected(bytes: &[u8]) {
    let Some(text) = text_of(bytes) else { return };
    if let Ok(found) = prepose_check::detected::read(text) {
        let case = found.case();
        let boxes = case.detections.iter().map(|one| one.bbox);
        assert!(
            boxes
                .into_iter()
                .all(|one| one.x0 <= one.x1 && one.y0 <= one.y1)
        );
    }
}
