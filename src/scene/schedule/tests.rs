use super::*;

fn of(prompt: &str, steps: usize) -> Vec<(usize, String)> {
    let segments = segments(prompt, steps).unwrap();
    segments
        .into_iter()
        .map(|segment| (segment.first_step, segment.text))
        .collect()
}

#[track_caller]
fn is(prompt: &str, expected: &[(usize, &str)]) {
    let expected: Vec<(usize, String)> = expected
        .iter()
        .map(|(step, text)| (*step, (*text).to_owned()))
        .collect();
    assert_eq!(of(prompt, 10), expected, "{prompt:?}");
}

/// With 10 steps; the behaviour of A1111's parser on the same prompts.
#[test]
fn a1111_semantics() {
    is("test", &[(0, "test")]);
    is("a [b:3]", &[(0, "a "), (3, "a b")]);
    is("a [b: 3]", &[(0, "a "), (3, "a b")]);
    is("a [[[b]]:2]", &[(0, "a "), (2, "a [[b]]")]);
    is("[(a:2):3]", &[(0, ""), (3, "(a:2)")]);
    is("a [b : c : 1] d", &[(0, "a b  d"), (1, "a  c  d")]);
    is("a[b:[c:d:2]:1]e", &[(0, "abe"), (1, "ace"), (2, "ade")]);
    is("a [unbalanced", &[(0, "a [unbalanced")]);
    is("a [b:.5] c", &[(0, "a  c"), (5, "a b c")]);
    is("((a][:b:c [d:3]", &[(0, "((a][:b:c "), (3, "((a][:b:c d")]);
    is("a [b::4] c", &[(0, "a b c"), (4, "a  c")]);
    is("a [b:c:0.25] d", &[(0, "a b d"), (2, "a c d")]);
    is("a [b:c:0] d", &[(0, "a c d")]);
}

#[test]
fn alternatives() {
    assert_eq!(
        of("[a|(b:1.1)]", 4),
        [
            (0, "a".into()),
            (1, "(b:1.1)".into()),
            (2, "a".into()),
            (3, "(b:1.1)".into())
        ]
    );
    assert_eq!(
        of("[fe|]male", 3),
        [
            (0, "female".into()),
            (1, "male".into()),
            (2, "female".into())
        ]
    );
    assert_eq!(
        of("[fe|||]male", 5),
        [
            (0, "female".into()),
            (1, "male".into()),
            (4, "female".into())
        ]
    );
    assert_eq!(
        of("[a|b|[c:d:3]]", 6)[2..],
        [
            (2, "c".into()),
            (3, "a".into()),
            (4, "b".into()),
            (5, "d".into())
        ]
    );
}

#[test]
fn weights_stay() {
    for prompt in [
        "a [cat]",
        "a [[cat]] (dog:1.2)",
        "[a:b]",
        "[a:b:c]",
        "[a:b:c:3]",
        r"\[a:b:3\]",
        "[a:inf]",
        "[a:1e]",
        "3:4 [x",
    ] {
        is(prompt, &[(0, prompt)]);
    }
    is("[a (b] c:2]", &[(0, "[a (b] c:2]")]);
}

#[test]
fn steps_that_are_never_reached_are_refused() {
    for prompt in [
        "[a:b:10]",
        "[a:b:1.0]",
        "[b:2.5]",
        "x [y [z:99]]",
        "[a:b:-1]",
    ] {
        let message = segments(prompt, 10).unwrap_err().to_string();
        assert!(
            message.contains("10 steps") && message.contains("1 to 9"),
            "{message}"
        );
    }
    assert_eq!(segments(&"[".repeat(40_000), 10).unwrap().len(), 1);
    let deep = format!("{}a{}", "[".repeat(50), "]".repeat(50));
    assert_eq!(segments(&deep, 10), Err(ScheduleError::TooDeep));
}

/// After 10 steps 10 more, as `get_learned_conditioning_prompt_schedules` of the web UI has it with `hires_steps`: what is
/// left means there what the whole prompt meant.
#[test]
fn a_second_pass_goes_on() {
    let left = |prompt: &str| second_pass(prompt, 10, 10).unwrap();
    let then = |prompt: &str| of(&left(prompt), 10);
    // Its own two examples.
    assert_eq!(then("a [b:.5] c"), [(0, "a b c".into())]);
    assert_eq!(
        then("a [b:1.5] c"),
        [(0, "a  c".into()), (5, "a b c".into())]
    );
    // 12 − 10, and 10 − 10, which is no step.
    assert_eq!(
        then("a [b:c:12] [d::10]"),
        [(0, "a b ".into()), (2, "a c ".into())]
    );
    assert_eq!(left("a [cat:dog:10]"), "a dog");
    assert_eq!(
        left("[a|[b:c:3]|] [x:(y:1.2):1.25]"),
        "[a|c|] [x:(y:1.2):2]"
    );
    assert_eq!(
        left("a[b:[c:d:12]:1]e [f] \\[g:h:3\\]"),
        "a[c:d:2]e [f] \\[g:h:3\\]"
    );
    let joined = second_pass("[a:[b:0:3].5]", 10, 10);
    assert_eq!(joined, Err(ScheduleError::Joined("[a:0.5]".into())));
    for late in ["a [b:20]", "a [b:2.0]", "a [b:-1]"] {
        let message = second_pass(late, 10, 10).unwrap_err().to_string();
        assert!(message.contains("ends after step 20"), "{message}");
    }
}

/// Before 10 steps more, as `get_learned_conditioning_prompt_schedules` of the web UI has it without `hires_steps`: a step past
/// the last is the last, after which nothing comes.
#[test]
fn a_first_pass_ends_before_what_changes_later() {
    let shown = |prompt: &str| first_pass(prompt, 10, 10).unwrap();
    assert_eq!(shown("a [cat:dog:19]"), "a cat");
    assert_eq!(shown("a [b:1.5] c"), "a  c");
    assert_eq!(shown("a [b:c:12] [d::10]"), "a b d");
    assert_eq!(
        shown("[a|[b:c:13]|] [x:(y:1.2):1.25] [z:0.5]"),
        "[a|b|] x [:z:5]"
    );
    assert_eq!(
        shown("a[b:[c:d:12]:1]e [f] \\[g:h:3\\]"),
        "a[b:c:1]e [f] \\[g:h:3\\]"
    );
    // What changes in it alone stays as written.
    for prompt in ["a [cat]", "a [b:c:0.25] [d:e:0]", "[a:[b:0:0].5]"] {
        assert_eq!(shown(prompt), prompt);
    }
    let joined = first_pass("[a:[0:3:12].5]", 10, 10);
    assert_eq!(joined, Err(ScheduleError::Joined("[a:0.5]".into())));
    for late in ["a [b:20]", "a [b:2.0]", "a [b:-1]", "[x:[y:z:20]:12]"] {
        let message = first_pass(late, 10, 10).unwrap_err().to_string();
        assert!(message.contains("ends after step 20"), "{message}");
    }
}

#[test]
fn one_prompt_after_another() {
    let of = |prompts: &[(usize, &str)]| -> Vec<(usize, String)> {
        let segments = sequence(prompts, 10).unwrap();
        segments
            .into_iter()
            .map(|segment| (segment.first_step, segment.text))
            .collect()
    };
    assert_eq!(
        of(&[(0, "a"), (3, "b")]),
        [(0, "a".into()), (3, "b".into())]
    );
    assert_eq!(
        of(&[(0, "a [x:2]"), (4, "b [y:.5] [z:1]")]),
        [
            (0, "a ".into()),
            (2, "a x".into()),
            (4, "b  z".into()),
            (5, "b y z".into())
        ]
    );
    assert_eq!(of(&[(0, "a"), (0, "b")]), [(0, "b".into())]);
    assert_eq!(of(&[(0, "a"), (4, "a")]), [(0, "a".into())]);
}
