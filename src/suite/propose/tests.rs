use serde_json::{Value, json};

use super::*;

fn pair(a: &str, b: &str, left: &str, prompt: &str) -> Value {
    let right = if left == a { b } else { a };
    json!({
        "domain": "Keyboard", "a": a, "b": b, "context": "a keyboard", "constraint_type": "left_right",
        "semantic_basis": "layout", "difficulty": "obvious", "spatial_reality": {"left": left, "right": right},
        "rationale": "ISO/IEC 9995", "failure": "swapped", "prompt": prompt, "status": "new"
    })
}

fn fault(change: impl Fn(&mut Value)) -> String {
    let mut value = pair(
        "Q key",
        "P key",
        "Q key",
        "The Q key and the P key on a keyboard.",
    );
    change(&mut value);
    Pair::check(value).unwrap_err().to_string()
}

#[test]
fn what_is_no_case_is_refused() {
    assert!(fault(|v| v["constraint_type"] = json!("above_below")).contains("above_below"));
    assert!(fault(|v| v["status"] = json!("retired")).contains("retired"));
    assert!(fault(|v| v["rationale"] = json!(" ")).contains("rationale"));
    assert!(fault(|v| v["spatial_reality"]["left"] = json!("F key")).contains("F key"));
    assert!(
        fault(|v| v["prompt"] = json!("The P key and the Q key on a keyboard.")).contains("Q key")
    );
    assert!(
        fault(|v| v["prompt"] = json!("The Q key and the P key, Q on the left.")).contains("left")
    );
    assert!(fault(|v| v["prompt"] = json!("The Q key and the P key\u{7}")).contains("control"));
    assert!(fault(|v| drop(v.as_object_mut().unwrap().remove("prompt"))).contains("prompt"));
    assert!(fault(|v| v["a"] = json!("x".repeat(100))).contains("its a is"));
}

/// Three agents a round; the archive keeps each pair once, in whichever order, and no more than are wanted.
#[test]
fn rounds_fill_the_archive() {
    let curated = |round: usize| match round {
        1 => json!({"pairs": [
            pair("Q key", "P key", "Q key", "The Q key and the P key on a keyboard."),
            pair("M key", "Z key", "Z key", "The M key and the Z key on a keyboard."),
            {"a": "nothing else"},
        ]}),
        _ => json!({"pairs": [
            pair("P key", "Q key", "Q key", "The P key and the Q key on a keyboard."),
            pair("A key", "L key", "A key", "The A key and the L key on a keyboard."),
            pair("S key", "K key", "S key", "The S key and the K key on a keyboard."),
        ]}),
    };
    let mut archive = Archive::default();
    let mut asked: Vec<(Agent, String)> = Vec::new();
    let mut run = |archive: &mut Archive, round: usize| {
        archive.round(round, 3, |question| {
            asked.push((question.agent, question.text.clone()));
            Ok::<_, std::io::Error>(match question.agent {
                Agent::Scout => r#"{"candidates": [], "notes": "keys"}"#.to_owned(),
                Agent::Critic => json!({"directives": [], "scores": {"diversity": 2}}).to_string(),
                Agent::Curator => format!("```json\n{}\n```", curated(round)),
            })
        })
    };
    let first = run(&mut archive, 1).unwrap();
    assert_eq!((first.new, first.rejected.len()), (2, 1));
    assert_eq!(first.scores["diversity"], 2.0);
    let second = run(&mut archive, 2).unwrap();
    assert_eq!(
        (second.new, second.rejected[0].1.clone()),
        (1, Fault::Known)
    );
    assert_eq!(archive.pairs().len(), 3);
    let agents: Vec<Agent> = asked.iter().map(|(agent, _)| *agent).collect();
    assert_eq!(
        agents,
        [Agent::Scout, Agent::Critic, Agent::Curator].repeat(2)
    );
    assert!(
        asked[3].1.contains("Q key / P key") && asked[3].1.contains("2 of 3"),
        "{}",
        asked[3].1
    );
    let prompts = archive.prompts();
    let texts: Vec<&str> = prompts
        .iter()
        .map(|prompt| prompt.prompt.as_str())
        .collect();
    assert_eq!(
        &texts[2..4],
        [
            "The Z key and the M key on a keyboard.",
            "The M key and the Z key on a keyboard."
        ]
    );
    assert_eq!(prompts[2].prompt_id, "proposed_0001_aligned");
    assert_eq!(
        prompts[3].counterpart.as_deref(),
        Some("proposed_0001_aligned")
    );
    assert_eq!(prompts[3].relations[0].two(), Some((1, 0)));
}

#[test]
fn answers_of_another_form_say_whose() {
    let mut archive = Archive::default();
    let error = archive
        .round(1, 10, |_| {
            Ok::<_, std::io::Error>("I would be glad to help!".to_owned())
        })
        .unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("the scout") && message.contains("glad to help"),
        "{message}"
    );
    let error = archive
        .round(1, 10, |_| Err(std::io::Error::other("nobody there")))
        .unwrap_err();
    assert!(error.to_string().contains("the scout could not be asked"));
}
