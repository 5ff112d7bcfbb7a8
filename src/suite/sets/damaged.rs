//! Files of prompts from anybody: damaged ones are refused with the line, or read.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;

const JSONL: &str = r#"{"prompt": "a dog to the left of a cat", "prompt_id": "one", "tags": ["easy"]}
{"prompt": "a cup above a spoon", "relation": "above", "object_a": "cup", "object_b": "spoon", "counterpart": "one"}
{"prompt": "a red bench and a car", "objects": ["bench", "car"], "relations": [["bench", "right of", "car"]]}
"#;
const CSV: &str = "prompt_id,prompt,relation,object_a,object_b\none,a dog left of a cat,left of,dog,cat\n\
                   two,\"a cup, above a spoon\",above,cup,spoon\n";
const TEXT: &str = "a dog to the left of a cat\n(a cup:1.2) above [a spoon:a fork:0.5]\n";

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::with_cases(300)
    })]

    #[test]
    fn damaged_files_are_refused_or_read(
        (ending, text) in prop::sample::select(vec![("jsonl", JSONL), ("csv", CSV), ("txt", TEXT)]),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 0..5),
        end in prop::option::weighted(0.2, any::<Index>()),
    ) {
        let mut bytes = text.as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(end) = end {
            bytes.truncate(end.index(bytes.len()));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prompts").with_extension(ending);
        std::fs::write(&path, bytes).unwrap();
        match super::file::read(&path) {
            Ok(suite) => {
                for prompt in &suite.prompts {
                    let count = prompt.objects.len();
                    for stated in &prompt.relations {
                        let objects = stated.objects.iter().chain([&stated.subject]);
                        prop_assert!(objects.into_iter().all(|&index| index < count), "{prompt:?}");
                    }
                }
            }
            Err(error) => prop_assert!(error.to_string().len() < 2000),
        }
    }
}
