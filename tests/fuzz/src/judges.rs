//! What judges answer, and the files of what they are asked.

use prepose_judge::book;
use prepose_judge::ots;
use prepose_judge::question::{Answer, End, Form, object};
use prepose_judge::scene::graph::{self, Graph, parts};
use prepose_judge::scene::{compare, language};

use crate::text_of;

/// An answer is one of those that were asked for, or invalid; half a one never counts.
pub fn answers(bytes: &[u8]) {
    let Some(text) = text_of(bytes) else { return };
    for most in 1..=9 {
        if let Answer::Digit(digit) = Form::Digit(most).read(text, End::Stop) {
            assert!((1..=most).contains(&digit));
        }
        if let Answer::Letter(place) = Form::Letter(most).read(text, End::Stop) {
            assert!(place < most);
        }
    }
    for form in [Form::Digit(3), Form::YesNo, Form::Letter(4), Form::Object] {
        let read = form.read(text, End::Stop);
        // White space around it changes nothing.
        assert_eq!(form.read(&format!(" {text}\n"), End::Stop), read);
        for end in [End::Length, End::Refused] {
            assert!(matches!(form.read(text, end), Answer::Invalid(_)));
        }
    }
    let is_object = Form::Object.read(text, End::Stop) == Answer::Object;
    assert_eq!(is_object, object(text).is_some());
}

/// Files of graphs and of cases: what was read can be asked about, and is read again as the same.
pub fn graphs(bytes: &[u8]) {
    let Some(text) = text_of(bytes) else { return };
    if let Ok(graphs) = graph::read(text) {
        for graph in &graphs {
            sound(graph);
        }
        let lines: Vec<String> = graphs
            .iter()
            .map(|graph| serde_json::to_string(graph).expect("graphs are written"))
            .collect();
        assert_eq!(
            graph::read(&lines.join("\n")).expect("what was written is read"),
            graphs
        );
    }
    let _ = compare::read(text);
    for case in ots::read(text).unwrap_or_default() {
        for exchanged in [false, true] {
            let question = case.question(0, exchanged);
            assert!(question.text.contains(&case.a) && question.text.contains(&case.b));
        }
    }
}

fn sound(graph: &Graph) {
    assert!(!graph.objects.is_empty() && !graph.prompt().is_empty());
    assert!(graph.objects.iter().all(|object| parts(object).is_some()));
    for edge in &graph.relationships {
        assert_ne!(edge.source, edge.target);
        assert!(
            [&edge.source, &edge.target]
                .iter()
                .all(|end| graph.objects.contains(end))
        );
    }
}

/// What language models write about scenes: a graph that comes of it can be one.
pub fn texts(bytes: &[u8]) {
    let Some(text) = text_of(bytes) else { return };
    if let Ok(composed) = language::composed(text) {
        assert!(!composed.is_empty());
    }
    if let Ok(graph) = language::extracted("x", text) {
        sound(&graph);
    }
    let placed = ["person.1", "dog.1"].map(|object| language::Placed {
        object: object.into(),
        bbox: [0.0, 0.0, 9.0, 9.0],
    });
    if let Ok(graph) = language::annotated("x", &placed, text) {
        sound(&graph);
    }
    let _ = language::classified(text);
    for graph in language::attributed(&["apple", "car"], text).unwrap_or_default() {
        sound(&graph);
        assert!(!graph.picture().contains(['/', '\\']));
    }
}

/// Books of answers: what was written is read, and half a line at the end is none.
pub fn books(bytes: &[u8]) {
    let Ok(entries) = book::entries(bytes) else {
        return;
    };
    let mut written = Vec::new();
    for entry in &entries {
        serde_json::to_writer(&mut written, entry).expect("entries are written");
        written.push(b'\n');
    }
    assert_eq!(
        book::entries(&written).expect("what was written is read"),
        entries
    );
    if let Some(half) = written.len().checked_sub(2) {
        let before = book::entries(&written[..half]).expect("half a line is no mistake");
        assert_eq!(before[..], entries[..entries.len() - 1]);
    }
}
