//! What others write: the same promises as of the fuzz targets, on the same cases each time.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use crate::book;
use crate::ots;
use crate::question::{Answer, End, Form, object};
use crate::scene::graph::{self, parts};
use crate::scene::{compare, language};

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 256,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(17),
        ..ProptestConfig::default()
    }
}

/// Pieces of answers, as models put them together.
fn answer() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("1".to_owned()),
        Just("Yes".to_owned()),
        Just("B)".to_owned()),
        Just("<think>".to_owned()),
        Just("</think>".to_owned()),
        Just("```json".to_owned()),
        Just("```".to_owned()),
        Just("{\"a\": 1}".to_owned()),
        "\\PC{0,8}",
        "\\s{1,3}",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

/// JSON that is nearly a scene graph, or a text of one.
fn scene() -> impl Strategy<Value = Value> {
    let name = || {
        prop_oneof![
            Just("dog.1".to_owned()),
            Just("cat.1".to_owned()),
            Just("cat.2".to_owned()),
            Just("apple".to_owned()),
            Just(".".to_owned()),
            "\\PC{0,5}",
        ]
    };
    let objects = prop::collection::vec(name(), 0..4);
    let edge = (name(), name(), name()).prop_map(|(source, target, relation)| {
        json!({"source": source, "target": target, "relation": relation})
    });
    let edges = prop::collection::vec(edge, 0..4);
    (objects, edges, name()).prop_map(|(objects, edges, text)| {
        json!({"id": text, "objects": objects, "relationships": edges, "description": text, "level 1": text,
            "apple": objects, "car": objects})
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn answers_are_of_those_that_were_asked_for(text in answer()) {
        for most in 1..=9 {
            if let Answer::Digit(digit) = Form::Digit(most).read(&text, End::Stop) {
                prop_assert!((1..=most).contains(&digit));
            }
            if let Answer::Letter(place) = Form::Letter(most).read(&text, End::Stop) {
                prop_assert!(place < most);
            }
        }
        for form in [Form::Digit(3), Form::YesNo, Form::Letter(4), Form::Object] {
            let read = form.read(&text, End::Stop);
            prop_assert_eq!(form.read(&format!(" {text}\n"), End::Stop), read);
            for end in [End::Length, End::Refused] {
                prop_assert!(matches!(form.read(&text, end), Answer::Invalid(_)));
            }
        }
        let is_object = Form::Object.read(&text, End::Stop) == Answer::Object;
        prop_assert_eq!(is_object, object(&text).is_some());
    }

    #[test]
    fn graphs_that_are_read_can_be_asked_about(scenes in prop::collection::vec(scene(), 0..3)) {
        let text: String = scenes.iter().map(|scene| format!("{scene}\n")).collect();
        for graph in graph::read(&text).unwrap_or_default() {
            prop_assert!(!graph.prompt().is_empty());
            prop_assert!(graph.objects.iter().all(|object| parts(object).is_some()));
            for edge in &graph.relationships {
                prop_assert!(edge.source != edge.target);
                prop_assert!(graph.objects.contains(&edge.source) && graph.objects.contains(&edge.target));
            }
            let again = graph::read(&serde_json::to_string(&graph).unwrap()).unwrap();
            prop_assert_eq!(again, vec![graph]);
        }
        let _ = (compare::read(&text), ots::read(&text));
    }

    #[test]
    fn texts_of_models_give_graphs_or_nothing(scene in scene()) {
        let text = scene.to_string();
        for graph in language::extracted("x", &text).into_iter()
            .chain(language::attributed(&["apple", "car"], &text).unwrap_or_default())
        {
            prop_assert!(graph::check(graph.clone()).is_ok());
            prop_assert!(!graph.picture().contains(['/', '\\']));
        }
        if let Ok(composed) = language::composed(&text) {
            prop_assert!(!composed.is_empty());
        }
        let _ = language::classified(&text);
    }

    #[test]
    fn books_are_read_up_to_where_they_were_cut(
        answers in prop::collection::vec("\\PC{0,20}", 1..5),
        cut in 0usize..400,
    ) {
        let line = |(number, answer): (usize, &String)| {
            json!({"key": number.to_string(), "question": "q", "model": "m", "picture": "", "text": "t", "settings": {},
                "answer": answer, "end": "stop"})
        };
        let lines: Vec<String> = answers.iter().enumerate().map(|one| format!("{}\n", line(one))).collect();
        let whole = lines.concat();
        let cut = cut.min(whole.len());
        let read = book::entries(&whole.as_bytes()[..cut]).unwrap();
        let mut end = 0;
        let ended = lines.iter().take_while(|line| { end += line.len(); end <= cut });
        prop_assert_eq!(read.len(), ended.count());
        for (entry, answer) in read.iter().zip(&answers) {
            prop_assert_eq!(&entry.answer, answer);
        }
    }
}
