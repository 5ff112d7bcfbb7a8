//! Verbs in the other voice: "is chasing" and "is being chased by", "points at" and "is pointed at by".

/// Irregular verbs: what does it, what it is done to, and the finite form.
const IRREGULAR: [(&str, &str, &str); 17] = [
    ("biting", "bitten", "bites"),
    ("bringing", "brought", "brings"),
    ("catching", "caught", "catches"),
    ("drawing", "drawn", "draws"),
    ("driving", "driven", "drives"),
    ("eating", "eaten", "eats"),
    ("feeding", "fed", "feeds"),
    ("fighting", "fought", "fights"),
    ("hitting", "hit", "hits"),
    ("holding", "held", "holds"),
    ("leading", "led", "leads"),
    ("meeting", "met", "meets"),
    ("riding", "ridden", "rides"),
    ("seeing", "seen", "sees"),
    ("shaking", "shaken", "shakes"),
    ("teaching", "taught", "teaches"),
    ("throwing", "thrown", "throws"),
];

/// `chased` of `chasing` and of `chases`; none of what is neither.
pub(super) fn past_participle(verb: &str) -> Option<String> {
    let irregular = |(doing, done, does): &(&str, &str, &str)| {
        [*doing, *does].contains(&verb).then(|| (*done).to_owned())
    };
    if let Some(done) = IRREGULAR.iter().find_map(irregular) {
        return Some(done);
    }
    let ended = |stem: &str| match stem.strip_suffix('y') {
        Some(before) if !before.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{before}ied"),
        _ => format!("{stem}ed"),
    };
    if let Some(stem) = verb.strip_suffix("ing") {
        return Some(ended(stem));
    }
    let stem = verb.strip_suffix('s')?;
    if let Some(before) = stem.strip_suffix("ie") {
        return Some(format!("{before}ied"));
    }
    let hissing = ["che", "she", "sse", "xe"]
        .iter()
        .any(|end| stem.ends_with(end));
    Some(match stem.strip_suffix('e') {
        Some(before) if hissing => format!("{before}ed"),
        Some(_) => format!("{stem}d"),
        None => ended(stem),
    })
}

/// `chasing` of `chased`; none of what is no past participle.
pub(super) fn present_participle(done: &str) -> Option<String> {
    let irregular =
        |(doing, known, _): &(&str, &str, &str)| (*known == done).then(|| (*doing).to_owned());
    if let Some(doing) = IRREGULAR.iter().find_map(irregular) {
        return Some(doing);
    }
    match done.strip_suffix("ied") {
        Some(stem) => Some(format!("{stem}ying")),
        None => done.strip_suffix("ed").map(|stem| format!("{stem}ing")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_voices() {
        for (doing, done) in [
            ("chasing", "chased"),
            ("patting", "patted"),
            ("carrying", "carried"),
            ("photographing", "photographed"),
            ("playing", "played"),
            ("holding", "held"),
            ("hugging", "hugged"),
        ] {
            assert_eq!(past_participle(doing).as_deref(), Some(done));
            assert_eq!(present_participle(done).as_deref(), Some(doing));
        }
        for (does, done) in [
            ("chases", "chased"),
            ("watches", "watched"),
            ("carries", "carried"),
            ("pushes", "pushed"),
            ("rides", "ridden"),
            ("follows", "followed"),
        ] {
            assert_eq!(past_participle(does).as_deref(), Some(done));
        }
        assert_eq!(past_participle("chase"), None);
        assert_eq!(present_participle("chasing"), None);
    }
}
