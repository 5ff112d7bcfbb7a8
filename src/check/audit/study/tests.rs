use prepose_draw::table::{Cell, Table};
use prepose_statistics::agreement::Weights;
use prepose_statistics::bootstrap::Bootstrap;

use super::labels::{all, best, categories, have_order, matrix, pairwise};
use super::metrics::{correlations, decisions};
use super::published;
use super::raters::{Rater, Worth, metrics as run_metrics, raters, together};
use super::ratings::ratings;
use super::sheet::Sheet;
use super::{metrics, ots};
use crate::sample::Scores;

fn sheet(name: &str, text: &str) -> Sheet {
    Sheet::read(name, text).unwrap()
}

fn words(name: &str, of: &[(&str, &str)]) -> Rater {
    Rater {
        name: name.into(),
        said: (of.iter())
            .map(|(item, word)| ((*item).into(), (*word).into()))
            .collect(),
    }
}

#[track_caller]
fn number(table: &Table, row: usize, column: &str) -> f64 {
    let at = table
        .columns
        .iter()
        .position(|name| name == column)
        .unwrap();
    match &table.rows[row][at] {
        Cell::Mean(number) | Cell::Percent(number) => *number,
        Cell::Count(count) => *count as f64,
        other => panic!("{column}: {other:?}"),
    }
}

#[test]
fn sheets_are_tables_lists_and_lines() {
    let csv = "\u{feff}id,label,notes\r\na,right,\"x, y\"\r\nb,,z\r\n";
    let list =
        r#"[{"sample_id":"a","label":"right","notes":"x, y"},{"sample_id":"b","label":null}]"#;
    let lines = "{\"id\":\"a\",\"label\":\"right\",\"boxes\":[1,2]}\n\n{\"id\":\"b\"}\n";
    let read = [csv, list, lines].map(|text| sheet("x", text));
    assert_eq!(read[0], read[1]);
    assert_eq!(read[1], read[2]);
    assert_eq!(read[0].columns, ["label"]);
    let batch = r#"{"custom_id":"a","response":{"body":{"choices":[{"message":{"content":" 2 "}}]}},"error":null}"#;
    assert_eq!(sheet("x", batch).rows[0].1["answer"], "2");
}

/// As OpenAI writes them: the `id` is that of the request, whose answer may be none.
#[test]
fn batches_are_about_what_was_asked() {
    let whole = r#"{"id": "batch_req_123", "custom_id": "picture_1", "response": {"status_code": 200, "request_id": "req_123", "body": {"id": "chatcmpl-123", "object": "chat.completion", "created": 1711652795, "model": "gpt-4o-mini", "choices": [{"index": 0, "message": {"role": "assistant", "content": "1"}, "logprobs": null, "finish_reason": "stop"}], "usage": {"prompt_tokens": 22, "completion_tokens": 2, "total_tokens": 24}, "system_fingerprint": "fp_123"}}, "error": null}"#;
    let failed = r#"{"id": "batch_req_124", "custom_id": "picture_2", "response": null, "error": {"code": "batch_expired", "message": "This request could not be executed before the completion window expired."}}"#;
    let read = sheet("judge", &format!("{whole}\n{failed}\n"));
    let ids: Vec<&str> = read.rows.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["picture_1", "picture_2"]);
    assert_eq!(read.columns, ["answer"]);
    assert_eq!(read.rows[0].1["answer"], "1");
    // Elsewhere an id is one.
    let other = sheet("x", r#"{"id": "a", "custom_id": "b", "label": "right"}"#);
    assert_eq!(other.rows[0].0, "a");
}

#[test]
fn what_is_no_sheet_is_refused() {
    for (text, part) in [
        ("", "no rows"),
        ("[]", "no rows"),
        ("[1]", "row 1: it is not a JSON object"),
        ("{\"id\":1}\n{", "row 2: "),
        ("label\nx\n", "row 1: it does not say what it is about"),
        ("id,label\na,x\na,y\n", "rows 1 and 2 are both about a"),
        ("id,label\na,x,y\n", "CSV"),
    ] {
        let error = Sheet::read("x", text).unwrap_err().to_string();
        assert!(error.contains(part), "{text:?}: {error}");
    }
}

#[test]
fn columns_are_raters() {
    let one = sheet("anna", "id,overall,label\na,3,right\n");
    let named = |sheets: &[Sheet], columns: &[&str]| -> Vec<String> {
        let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
        let raters = raters(sheets, &columns).unwrap();
        raters.into_iter().map(|rater| rater.name).collect()
    };
    let both = [one.clone(), sheet("ben", "id,label\na,wrong\n")];
    assert_eq!(named(&both, &[]), ["anna", "ben"], "the column of words");
    assert_eq!(
        named(&both[..1], &["overall", "label"]),
        ["overall", "label"]
    );
    let error = raters(&both, &["overall".into()]).unwrap_err().to_string();
    assert_eq!(error, "there is no column \"overall\" in ben; it has label");
}

#[test]
fn people_are_taken_together_by_majority_or_mean() {
    let people = [
        words("a", &[("1", "right"), ("2", "wrong"), ("3", "missing")]),
        words("b", &[("1", "right"), ("2", "right")]),
        words("c", &[("1", "wrong"), ("3", "missing")]),
    ];
    let right = Worth::Right(vec!["right".into()]);
    let found = together(&people, &right, false).unwrap();
    let values: Vec<_> = found.values.into_iter().collect();
    assert_eq!(values, [("1".into(), 1.0), ("3".into(), 0.0)]);
    assert_eq!(found.divided, 1);
    let grades = Worth::Grade(["missing", "wrong", "right"].map(String::from).to_vec());
    let found = together(&people, &grades, true).unwrap();
    assert_eq!(found.values["1"], 5.0 / 3.0);
    let error = together(&people, &Worth::Number, false).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is not a number: \"right\"; say which"),
        "{error}"
    );
}

#[test]
fn a_yes_is_said_to_be_one() {
    let anna = |of: &[(&str, &str)]| [words("anna", of)];
    let truth = together(
        &anna(&[("1", "true"), ("2", "0"), ("3", "1.0")]),
        &Worth::Truth,
        false,
    );
    let values: Vec<f64> = truth.unwrap().values.into_values().collect();
    assert_eq!(values, [1.0, 0.0, 1.0]);
    // On a scale from 0 to 2, only the worst would be a no.
    for word in ["2", "0.7", "right"] {
        let error = together(&anna(&[("1", "1"), ("2", word)]), &Worth::Truth, false);
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains(&format!("about 2 is {word:?}, which is neither 0 nor 1"))
                && error.contains("--right"),
            "{error}"
        );
    }
    let people = anna(&[("1", "Right"), ("2", "wrong")]);
    let right = |words: &[&str]| {
        let words = words.iter().map(ToString::to_string).collect();
        together(&people, &Worth::Right(words), false)
    };
    assert!(right(&["right"]).is_ok());
    let error = right(&["right", "wight"]).unwrap_err().to_string();
    assert_eq!(
        error,
        "nobody says \"wight\", which --right names; what is said is Right, wrong"
    );
}

/// `scores.jsonl`, as a run writes it.
#[test]
fn what_a_run_writes_are_metrics() {
    let line = |number: u64, side: &str| {
        let scores = Scores {
            sample_id: format!("psg_{number}_seed0000"),
            prompt_id: number.to_string(),
            seconds: 1.5,
            found: Some(2),
            each_found: Some(vec![true, true]),
            objects: 2,
            centre: Some(number.is_multiple_of(2)),
            t2i: Some(0.1 * number as f64),
            side: Some(side.into()),
            ..Scores::default()
        };
        crate::json::to_line(&scores).unwrap() + "\n"
    };
    let text: String = (0..8).map(|number| line(number, "left")).collect();
    let read = sheet("scores", &text);
    let of_run = run_metrics(std::slice::from_ref(&read), &[]).unwrap();
    let names: Vec<&str> = of_run.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["centre", "t2i"]);
    let all = read.rows.iter();
    let people = Rater {
        name: "people".into(),
        said: all
            .map(|(id, row)| (id.clone(), row["t2i"].clone()))
            .collect(),
    };
    let people = together(&[people], &Worth::Number, false).unwrap();
    let table = correlations(&people, &of_run, &Bootstrap::default(), false).unwrap();
    assert_eq!(number(&table, 1, "spearman"), 1.0);
    // What is asked for is taken, or it is said what is wrong with it.
    let named = run_metrics(&[read], &["found".into(), "side".into()]).unwrap();
    let error = correlations(&people, &named[1..], &Bootstrap::default(), false);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("is not a number: \"left\"; name the columns that are metrics"),
        "{error}"
    );
    let mixed = sheet("x", "id,pse,centre,why\na,0.5,1,\nb,none,1,far\n");
    let names: Vec<String> = (run_metrics(&[mixed], &[]).unwrap().into_iter())
        .map(|metric| metric.name)
        .collect();
    assert_eq!(names, ["pse", "centre"], "a wrong number is no word");
}

#[test]
fn yes_and_no_have_one_correlation() {
    let items: Vec<String> = (0..40).map(|i| i.to_string()).collect();
    let of = |name: &str, value: fn(usize) -> usize| Rater {
        name: name.into(),
        said: (items.iter().enumerate())
            .map(|(i, item)| (item.clone(), value(i).to_string()))
            .collect(),
    };
    let truth = together(
        &[of("people", |i| usize::from(i % 4 == 0))],
        &Worth::Number,
        false,
    );
    let truth = truth.unwrap();
    let metrics = [
        of("same", |i| usize::from(i % 4 == 0)),
        of("other", |i| usize::from(i % 3 == 0)),
    ];
    let bootstrap = Bootstrap::default();
    let table = correlations(&truth, &metrics, &bootstrap, true).unwrap();
    assert_eq!(number(&table, 0, "spearman"), 1.0);
    let [spearman, kendall, pearson] =
        ["spearman", "kendall", "pearson"].map(|name| number(&table, 1, name));
    assert!((spearman - kendall).abs() < 1e-12 && (kendall - pearson).abs() < 1e-12);
    assert!(
        number(&table, 1, "pearson_low") < pearson && pearson < number(&table, 1, "pearson_high")
    );
    assert_eq!(table.rows.len(), 2 + published::PSG_1.len());

    let table = decisions(&truth, &metrics, |_| 0.5, &bootstrap, false).unwrap();
    // Of 40, 10 are right; `other` says yes of 14, of which 4 (0, 12, 24, 36) are right.
    assert_eq!(number(&table, 1, "precision"), 4.0 / 14.0);
    assert_eq!(number(&table, 1, "recall"), 0.4);
    assert_eq!(number(&table, 1, "specificity"), 20.0 / 30.0);
    assert!(number(&table, 1, "recall_low") < 0.4);

    let strangers = [words("x", &[("z", "1")])];
    let error = metrics::correlations(&truth, &strangers, &bootstrap, false).unwrap_err();
    assert!(error.to_string().contains("no items in common"), "{error}");
}

#[test]
fn words_agree_beyond_chance() {
    // Cohen's layout: 20 and 15 agree of 50.
    let text = |of: fn(usize) -> bool| -> String {
        let rows = (0..50).map(|i| format!("{i},{}\n", if of(i) { "yes" } else { "no" }));
        std::iter::once("id,label\n".to_owned())
            .chain(rows)
            .collect()
    };
    let sheets = [
        sheet("a", &text(|i| i < 25)),
        sheet("b", &text(|i| i < 20 || (25..35).contains(&i))),
    ];
    let raters = raters(&sheets, &[]).unwrap();
    let words = categories(&raters, &[]).unwrap();
    assert_eq!(words, ["no", "yes"]);
    let table = pairwise(&raters, &words, Weights::None, &Bootstrap::default()).unwrap();
    assert!((number(&table, 0, "kappa") - 0.4).abs() < 1e-12);
    assert_eq!(number(&table, 0, "agreement"), 0.7);
    let table = matrix(&raters[0], &raters[1], &words).unwrap();
    let last: Vec<String> = table.rows[2].iter().map(Cell::text).collect();
    assert_eq!(last, ["total", "20", "30", "50"]);
    let found = all(&raters, &words);
    assert_eq!(
        (found.items, found.divided, found.majority.said.len()),
        (50, 15, 35)
    );
    assert!(found.fleiss.unwrap() < 0.4 && found.alpha.unwrap() > 0.39);
    assert!(
        categories(&raters, &["yes".into()])
            .unwrap_err()
            .to_string()
            .contains("not one of yes")
    );
}

#[test]
fn the_alphabet_is_no_order() {
    let in_order = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        have_order(&words)
    };
    assert_eq!(in_order(&["-1", "0", "2.5"]), Ok(()));
    let error = in_order(&["missing", "right", "wrong"]).unwrap_err();
    let told = error.to_string();
    assert!(
        told.contains("missing, right, wrong have none of their own") && told.contains("--words"),
        "{told}"
    );
    assert!(in_order(&["1", "nan"]).is_err());
}

#[test]
fn a_score_chooses_the_best() {
    let text = "id,model,score\nq1,sd,0.5\nq1,sdxl,0.75\nq2,sd,0.5\nq2,sdxl,0.5\n";
    let sheet = Sheet::read_candidates("scores", text).unwrap();
    let chosen = best(&sheet, "model", "score").unwrap();
    assert_eq!(
        chosen,
        words("score", &[("q1", "sdxl")]),
        "a tie is no choice"
    );
    assert!(
        best(&sheet, "model", "sgscore")
            .unwrap_err()
            .to_string()
            .contains("no column")
    );
}

#[test]
fn ratings_have_means_and_spreads() {
    let one = sheet(
        "anna",
        "id,model,overall,fidelity\na,x,4,7\nb,x,6,7\nc,y,1,2\n",
    );
    let other = sheet(
        "ben",
        "id,model,overall,fidelity\na,x,5,7\nb,x,7,6\nc,y,1,2\n",
    );
    let table = ratings(
        &[one, other],
        Some("model"),
        &[],
        &Bootstrap::default(),
        true,
    )
    .unwrap();
    assert_eq!(number(&table, 0, "mean"), 5.5);
    // 4, 5, 6, 7: the sample's deviation.
    assert!((number(&table, 0, "deviation") - (5.0f64 / 3.0).sqrt()).abs() < 1e-12);
    assert_eq!(
        (
            number(&table, 0, "mean_low"),
            number(&table, 0, "mean_high")
        ),
        (4.5, 6.5)
    );
    assert_eq!(table.rows.len(), 4 + 12);
}

/// What a page exports has no groups: they are in the table that the page was made from, or in one person's file.
#[test]
fn groups_are_found_by_item() {
    let anna = sheet(
        "anna",
        r#"[{"sample_id":"a","overall":4},{"sample_id":"b","overall":6}]"#,
    );
    let ben = sheet("ben", "id,model,overall\nb,x,8\nc,y,2\n");
    let pictures = sheet(
        "pictures",
        "id,picture,model,steps\na,a.png,x,20\nb,b.png,x,20\n",
    );
    let by =
        |sheets: &[Sheet], by: &str| ratings(sheets, Some(by), &[], &Bootstrap::default(), false);
    let table = by(&[anna.clone(), ben.clone()], "model").unwrap();
    let rows: Vec<Vec<String>> = (table.rows.iter())
        .map(|row| row[..4].iter().map(Cell::text).collect())
        .collect();
    assert_eq!(
        rows,
        [
            ["(no model)", "overall", "1", "4.0000"],
            ["x", "overall", "1", "7.0000"],
            ["y", "overall", "1", "2.0000"],
        ]
    );
    let table = by(&[anna.clone(), pictures.clone()], "model").unwrap();
    assert_eq!((table.rows.len(), number(&table, 0, "mean")), (1, 5.0));
    let error = by(&[anna, pictures], "modle").unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no column \"modle\" in anna or pictures; it has model, overall, picture, steps"
    );
}

#[test]
fn judges_have_the_benchmarks_figures() {
    let people = "id,figure,code\n1,t2i_homogenization,1\n2,t2i_homogenization,1\n3,t2i_homogenization,2\n\
                  4,i2i_aligned,2\n5,i2i_aligned,1\n6,t2i_reverse,1\n7,t2i_reverse,0\n";
    let judge = people
        .replace("3,t2i_homogenization,2", "3,t2i_homogenization,1")
        .replace(",0", ",3");
    let table = ots::judges(&[sheet("people", people), sheet("judge", &judge)], true).unwrap();
    assert!((number(&table, 0, "t2i_homogenization") - 100.0 / 3.0).abs() < 1e-9);
    assert_eq!(number(&table, 1, "t2i_homogenization"), 100.0);
    assert_eq!(number(&table, 0, "i2i_aligned"), 50.0);
    assert_eq!(number(&table, 0, "t2i_reverse"), 100.0);
    assert_eq!(number(&table, 0, "kappa_to_first"), 1.0);
    // 0 and 3 are both invalid, so that six of seven agree.
    let kappa = number(&table, 1, "kappa_to_first");
    let by_hand = 1.0 - (1.0 / 7.0) / (1.0 - (1.0 + 4.0 * 5.0 + 2.0) / 49.0);
    assert!((kappa - by_hand).abs() < 1e-12, "{kappa} {by_hand}");
    let error = ots::judges(&[sheet("x", "id,figure,code\n1,t2i_aligned,4\n")], false).unwrap_err();
    assert_eq!(error.to_string(), "x: 1: code is \"4\", not 0, 1, 2 or 3");
}

/// Table 13 of Order Is Not Layout.
#[test]
fn the_printed_matrix_gives_the_printed_kappa() {
    let table = published::ots_13();
    assert!((number(&table, 0, "kappa") - 0.811).abs() < 5e-4);
    for row in 0..table.rows.len() {
        let away = number(&table, row, "kappa") - number(&table, row, "kappa_printed");
        assert!(away.abs() < 0.005, "{:?}", table.rows[row]);
    }
}

/// The same people looked at the same pictures beside each metric, so they must have said yes equally often.
#[test]
fn table_2_is_printed_with_truth_and_metric_exchanged() {
    for (name, _, printed) in &published::PSG_2 {
        let shares = published::psg_2_shares(printed);
        let people = shares.both + shares.people;
        assert!((people - 0.3566).abs() < 0.0015, "{name}: {people}");
        // What is printed as specificity is of what the metric denies.
        let specificity = shares.neither / (shares.neither + shares.people);
        assert!(
            (100.0 * specificity - printed[3]).abs() < 0.05,
            "{name}: {specificity}"
        );
    }
    let as_printed = published::PSG_2.map(|(_, _, printed)| {
        let shares = published::psg_2_shares(&printed);
        shares.both + shares.metric
    });
    assert!(as_printed[0] - as_printed[2] > 0.3, "{as_printed:?}");
}
