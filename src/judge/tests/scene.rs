use prepose_check::rules::{Case as Boxes, Options};
use prepose_check::{BoundingBox, Detection};
use prepose_statistics::bootstrap::Bootstrap;

use super::{GRAPHS, manner, number, pictures};
use crate::ask::{Outcome, ask};
use crate::book::Book;
use crate::oracle::Oracle;
use crate::picture::Named;
use crate::question::{Answer, Invalid, Question};
use crate::scene::compare::{self, Comparison, compare};
use crate::scene::graph::{self, Level};
use crate::scene::questions::{Part, Rules, questions, vocabulary};
use crate::scene::score;

#[test]
fn graphs_have_prompts_levels_and_questions() {
    let graphs = graph::read(GRAPHS).unwrap();
    assert_eq!(
        graphs[0].prompt(),
        "person kicking sports ball, person near person"
    );
    assert_eq!(graphs[1].prompt(), "umbrella");
    assert_eq!(
        (graphs[1].id.as_str(), graphs[1].picture().as_str()),
        ("2", "2.png")
    );
    let levels: Vec<Level> = graphs
        .iter()
        .map(|graph| Level::of(graph.complexity(0.0)))
        .collect();
    assert_eq!(levels, [Level::Simple, Level::Trivial, Level::Medium]);
    assert_eq!(graphs[0].complexity(0.25), 0.25 * 3.0 + 0.75 * 2.0);

    let words = vocabulary(&graphs);
    let asked = questions(&graphs, &words, &Rules::default());
    assert_eq!(asked.len(), 3 + 2 + 1 + 4 + 4);
    assert_eq!(
        asked[1].question.text,
        "Is there a second person in the image? Answer with Yes or No only."
    );
    assert_eq!(
        asked[2].question.text,
        "Is there a sports ball in the image? Answer with Yes or No only."
    );
    assert_eq!(
        asked[5].question.text,
        "Is there an umbrella in the image? Answer with Yes or No only."
    );
    for one in &asked {
        let Part::Relationship(at, right) = one.part else {
            continue;
        };
        let crate::question::About::Relation(_, options, _) = &one.question.about else {
            panic!("{one:?}");
        };
        assert_eq!(
            options[usize::from(right)],
            graphs[one.graph].relationships[at].relation
        );
        assert_eq!(options.len(), 4);
        assert_eq!(options[3], "no visible relationship");
        let mut each = options.clone();
        each.sort();
        each.dedup();
        assert_eq!(each.len(), 4, "no option twice: {options:?}");
    }
    let dog = asked
        .iter()
        .find(|one| one.question.id == "sides#relationship-1")
        .unwrap();
    assert!(
        dog.question
            .text
            .starts_with("What is the relationship between the dog and the cat in the image? A) ")
    );
    assert!(
        !dog.question.text.contains("right of"),
        "what the graph says the other way round is not wrong"
    );
    // The rest of the file does not matter to a question.
    let alone = questions(&graphs[..1], &words, &Rules::default());
    assert_eq!(alone[..], asked[..5]);
    let other = questions(
        &graphs,
        &words,
        &Rules {
            seed: 1,
            ..Rules::default()
        },
    );
    assert_ne!(other, asked);
}

/// Wrong options are in lower case.
#[test]
fn capitals_give_no_option_away() {
    let edge = |relation: &str| {
        format!(
            r#"{{"id": "{relation}", "objects": ["dog.1", "cat.1"], "relationships": [{{"source": "dog.1", "target": "cat.1", "relation": "{relation}"}}]}}"#
        )
    };
    let graphs = graph::read(&["Holding", "Riding", "Near"].map(edge).join("\n")).unwrap();
    let asked = questions(&graphs, &vocabulary(&graphs), &Rules::default());
    let relations = asked.iter().filter_map(|one| match &one.question.about {
        crate::question::About::Relation(_, options, right) => Some((options, *right)),
        _ => None,
    });
    let mut rights = Vec::new();
    for (options, right) in relations {
        let mut sorted = options.clone();
        sorted.sort();
        let none = "no visible relationship";
        assert_eq!(sorted, ["holding", "near", none, "riding"]);
        rights.push(options[usize::from(right)].as_str());
    }
    assert_eq!(rights, ["holding", "riding", "near"]);
}

#[test]
fn what_is_no_graph_is_refused() {
    for (text, part) in [
        ("", "no scene graphs"),
        ("[]", "no scene graphs"),
        ("{\"objects\":[]}", "missing field `relationships`"),
        (
            "{\"objects\":[],\"relationships\":[]}",
            "graph 1 (1): it has no objects",
        ),
        (
            r#"{"objects":["dog"],"relationships":[]}"#,
            "\"dog\" is not like \"person.2\"",
        ),
        (
            r#"{"objects":["dog.1","dog.1"],"relationships":[]}"#,
            "is there twice",
        ),
        (
            r#"{"objects":["dog.1"],"relationships":[{"source":"dog.1","target":"cat.1","relation":"near"}]}"#,
            "a relationship is of \"cat.1\", which is none of its objects",
        ),
        (
            r#"{"objects":["dog.1"],"relationships":[{"source":"dog.1","target":"dog.1","relation":"near"}]}"#,
            "\"dog.1\" is related to itself",
        ),
        (
            r#"{"objects":["dog.1","cat.1"],"relationships":[{"source":"dog.1","target":"cat.1","relation":"near"},{"source":"dog.1","target":"cat.1","relation":"near"}]}"#,
            "that \"dog.1\" is \"near\" \"cat.1\" is there twice",
        ),
        (
            "{\"id\":\"a\",\"objects\":[\"dog.1\"],\"relationships\":[]}\n{\"id\":\"a\",\"objects\":[\"dog.1\"],\"relationships\":[]}",
            "graph 2 (a): its id is that of an earlier one",
        ),
    ] {
        let error = graph::read(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

/// Boxes for the third graph, of which some things were left out: the score is what can be computed by hand.
#[test]
fn planted_omissions_give_the_score_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let graphs = graph::read(GRAPHS).unwrap().split_off(2);
    let asked = questions(
        &graphs,
        &["left of", "right of", "above", "below", "holding"].map(String::from),
        &Rules::default(),
    );
    let named = pictures(folder.path(), 1);
    let named = [Named {
        id: "sides".into(),
        ..named[0].clone()
    }];
    let things: Vec<Question> = asked.iter().map(|one| one.question.clone()).collect();
    let score = |labels: &[(&str, f64, f64)]| {
        let found = |&(label, x, y): &(&str, f64, f64)| Detection {
            label: label.into(),
            score: 0.9,
            bbox: BoundingBox::new(x, y, x + 10.0, y + 10.0),
            mask: None,
        };
        let boxes = Boxes {
            id: "sides".into(),
            detections: labels.iter().map(found).collect(),
            ..Boxes::default()
        };
        let oracle = Oracle::new([boxes], Options::default());
        let answers = ask(&oracle, &named, &things, &mut Book::unkept(), &manner(1)).unwrap();
        score::found(&graphs, &asked, &answers.outcomes).remove(0)
    };
    let all = [
        ("dog", 0.0, 50.0),
        ("cat", 50.0, 50.0),
        ("car", 50.0, 80.0),
        ("bird", 55.0, 0.0),
    ];
    // "Holding" cannot be seen in boxes: 3 of 4 relationships at best.
    let found = score(&all);
    assert_eq!(found.object_recall(), Some(1.0));
    assert_eq!(found.relationships[..3], [Some(true); 3]);
    assert_eq!(found.sgscore(0.5), Some(0.5 + 0.5 * 0.75));
    // Without the cat both of its relationships go as well.
    let found = score(&[all[0], all[2], all[3]]);
    assert_eq!(
        found.objects,
        [Some(true), Some(false), Some(true), Some(true)]
    );
    assert_eq!(found.sgscore(0.25), Some(0.25 * 0.75 + 0.75 * 0.25));
    let missing = found.missing(&graphs[0]);
    assert_eq!(missing.objects, ["dog.1", "cat.1", "car.1"]);
    assert_eq!(missing.relationships.len(), 3);
    // The bird below the car.
    let found = score(&[all[0], all[1], all[2], ("bird", 55.0, 90.0)]);
    assert_eq!(found.relationships[2], Some(false));

    let table = score::by_level(&graphs, &[found], 0.0, 0.5, &Bootstrap::default());
    assert_eq!(number(&table, 0, "sgscore"), 100.0 * (0.5 + 0.5 * 0.5));
    assert_eq!(table.rows.len(), 2);
}

/// Two of one name are two boxes, whichever of them the graph means by its first.
#[test]
fn a_box_stands_in_no_relation_to_itself() {
    let folder = tempfile::tempdir().unwrap();
    let named = [Named {
        id: "two".into(),
        ..pictures(folder.path(), 1)[0].clone()
    }];
    let words = ["near", "far from", "left of", "holding"].map(String::from);
    // Squares of 10 pixels a side, of which the first is the surest.
    let seen = |relation: &str, lefts: &[f64]| {
        let graph = format!(
            r#"{{"id": "two", "objects": ["person.1", "person.2"],
            "relationships": [{{"source": "person.1", "target": "person.2", "relation": "{relation}"}}]}}"#
        );
        let graphs = graph::read(&graph.replace('\n', " ")).unwrap();
        let asked = questions(&graphs, &words, &Rules::default());
        let people = lefts.iter().map(|x| Detection {
            label: "person".into(),
            score: 0.9,
            bbox: BoundingBox::new(*x, 0.0, x + 10.0, 10.0),
            mask: None,
        });
        let boxes = Boxes {
            id: "two".into(),
            detections: people.collect(),
            ..Boxes::default()
        };
        let oracle = Oracle::new([boxes], Options::default());
        let things: Vec<Question> = asked.iter().map(|one| one.question.clone()).collect();
        let answers = ask(&oracle, &named, &things, &mut Book::unkept(), &manner(1)).unwrap();
        score::found(&graphs, &asked, &answers.outcomes)[0].relationships[0]
    };
    // Near is up to the mean of both diagonals, 14.1 pixels.
    assert_eq!(seen("near", &[0.0]), Some(false), "there is but one");
    assert_eq!(seen("near", &[0.0, 10.0]), Some(true));
    assert_eq!(seen("near", &[0.0, 90.0]), Some(false));
    assert_eq!(seen("far from", &[0.0, 90.0]), Some(true));
    assert_eq!(seen("left of", &[90.0, 0.0]), Some(true));
}

#[test]
fn invalid_answers_are_not_wrong() {
    let graphs = graph::read(GRAPHS).unwrap();
    let asked = questions(&graphs, &vocabulary(&graphs), &Rules::default());
    let outcomes: Vec<Outcome> = (asked.iter())
        .map(|one| match one.part {
            Part::Object(0) => Outcome::Answered(Answer::Yes(true)),
            Part::Object(_) => Outcome::Answered(Answer::Invalid(Invalid::Other)),
            Part::Relationship(..) => Outcome::Failed("no connection".into()),
        })
        .collect();
    let found = score::found(&graphs, &asked, &outcomes);
    assert_eq!(found[0].object_recall(), Some(1.0));
    assert_eq!(
        (found[0].relation_recall(), found[0].sgscore(0.5)),
        (None, None)
    );
    assert_eq!(found[1].sgscore(0.5), Some(1.0), "objects alone");
}

#[test]
fn language_models_write_and_read_scenes() {
    use crate::scene::language::{
        Placed, annotate, annotated, classified, classify, compose, composed, extract, extracted,
    };
    let graphs = graph::read(GRAPHS).unwrap();
    let text = compose(&graphs[1]).text;
    assert!(text.starts_with("You are an AI assistant tasked with converting scene graphs"));
    assert!(
        text.ends_with("```json {\"objects\":[\"umbrella.1\"],\"relationships\":[]} ```\nOutput:"),
        "{text}"
    );
    assert_eq!(
        composed("```json\n{\"description\": \" An umbrella. \"}\n```").unwrap(),
        "An umbrella."
    );
    assert!(
        composed("{\"text\": \"x\"}")
            .unwrap_err()
            .contains("description")
    );
    assert!(composed("An umbrella.").is_err());

    assert!(
        extract("1", "a {dog}")
            .text
            .contains("Sentence: \"a {dog}\"")
    );
    let read = extracted(
        "1",
        r#"{"objects": ["dog", "cat", "dog"], "relationships": [{"source": "dog", "target": "cat", "relation": "near"}]}"#,
    );
    let read = read.unwrap();
    assert_eq!(read.objects, ["dog.1", "cat.1"]);
    assert_eq!(read.prompt(), "dog near cat");
    let error = extracted(
        "1",
        r#"{"objects": ["dog"], "relationships": [{"source": "dog", "target": "moon", "relation": "near"}]}"#,
    );
    assert!(
        error
            .unwrap_err()
            .contains("\"moon\", which is none of its objects")
    );

    let placed = [
        ("person.2", [116.0, 49.4, 309.0, 491.0]),
        ("sports ball.1", [312.0, 360.0, 370.0, 417.0]),
    ];
    let placed = placed.map(|(object, bbox)| Placed {
        object: object.into(),
        bbox,
    });
    let asked = annotate("x", 0, &placed, [640, 480]);
    assert!(asked.text.contains("Now, objects are [\"person.2:[116, 49, 309, 491]\",\"sports ball.1:[312, 360, 370, 417]\"]."), "{}", asked.text);
    assert!(asked.text.contains("image are (640, 480)."));
    let answer = r#"{"relationships": [{"source": "person.2", "target": "sports ball.1", "relation": "kicking"}]}"#;
    assert_eq!(
        annotated("x", &placed, answer).unwrap().prompt(),
        "person kicking sports ball"
    );
    assert!(
        annotated("x", &placed, &answer.replace("ball.1", "ball.2"))
            .unwrap_err()
            .contains("ball.2")
    );

    assert!(
        classify(&graphs[0])
            .text
            .starts_with("Now, we have a list of image information like [{\"image_id\":\"kick\"")
    );
    let answer = r#"[{"image_id": "kick", "file_name": "kick.png", "level 1": "People-Centric", "level 2": "Sports and Recreation"}]"#;
    assert!(
        classified(answer)
            .unwrap_err()
            .contains("not a class of People-Centric scenes")
    );
    let answer = answer.replace(" and ", " & ");
    assert_eq!(
        classified(&answer).unwrap(),
        ["People-Centric", "Sports & Recreation"]
    );
}

#[test]
fn things_get_attributes() {
    use crate::scene::language::{attributed, attributes, single};
    let text = attributes("1", &["apple", "car"]).text;
    assert!(
        text.starts_with("Given a file listing object categories, generate 3 realistic instances")
    );
    assert!(text.ends_with("\n[\"apple\",\"car\"]"), "{text}");
    let answer = r#"{"apple": ["red apple", "ripe apple"], "car": ["luxury car"]}"#;
    let graphs = attributed(&["apple", "car"], answer).unwrap();
    assert_eq!(graphs[1].objects, ["ripe apple.1"]);
    assert_eq!(graphs[2].picture(), "car-1.png");
    assert_eq!(single("../up", "up").picture(), "---up.png");
    let error = attributed(&["apple", "boat"], answer).unwrap_err();
    assert!(error.contains("no list for \"boat\""), "{error}");
    assert!(attributed(&["apple"], r#"{"apple": [3]}"#).is_err());
}

#[test]
fn models_are_compared_with_the_papers() {
    let lines = r#"{"id": "1", "level": "simple", "object_recall": 1.0, "relation_recall": 0.5, "sgscore": 0.75}
{"id": "2", "level": "hard", "object_recall": 0.5, "relation_recall": null, "sgscore": null, "missing": {}}"#;
    let lines = compare::read(lines).unwrap();
    let models = [("mine".to_owned(), lines)];
    let table = compare(&models, Comparison::Megasg, &Bootstrap::default());
    assert_eq!(table.rows.len(), 1 + 11);
    assert_eq!(number(&table, 0, "sgscore"), 75.0);
    assert_eq!(
        (
            number(&table, 0, "simple_graphs"),
            number(&table, 0, "hard_graphs")
        ),
        (1.0, 1.0)
    );
    let sd15 = table
        .rows
        .iter()
        .position(|row| row[0] == prepose_draw::table::Cell::Name("SD 1.5".into()));
    let sd15 = sd15.unwrap();
    assert_eq!(
        (
            number(&table, sd15, "sgscore"),
            number(&table, sd15, "hard")
        ),
        (54.2, 44.7)
    );
    assert_eq!(
        (number(&table, sd15, "fid"), number(&table, sd15, "graphs")),
        (29.1, 50_000.0)
    );
    let vg = compare(&models, Comparison::Vg, &Bootstrap::default());
    assert_eq!((vg.rows.len(), number(&vg, 13, "simple")), (1 + 13, 74.2));
    let feedback = compare(&models, Comparison::Feedback, &Bootstrap::default());
    assert_eq!(
        (
            number(&feedback, 0, "object_recall"),
            number(&feedback, 0, "relation_recall")
        ),
        (75.0, 50.0)
    );
    assert_eq!(number(&feedback, 7, "sgscore"), 77.25);
    let attributes = compare(&models, Comparison::Attributes, &Bootstrap::default());
    assert_eq!(number(&attributes, 2, "object_recall"), 90.12);
    for table in [table, vg, feedback, attributes] {
        assert!(
            table
                .rows
                .iter()
                .all(|row| row.len() == table.columns.len())
        );
    }
    let error = compare::read("{\"id\": \"1\"}").unwrap_err().to_string();
    assert!(
        error.contains("line 1 is not a picture of a judged scene"),
        "{error}"
    );
    assert!(compare::read("\n").is_err());
}
