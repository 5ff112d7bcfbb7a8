//! Command lines as they are kept, without what is secret in them.

/// Whether what has this name should be kept from files and messages.
pub fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let secret = |word: &str| {
        matches!(
            word,
            "key" | "apikey" | "token" | "secret" | "password" | "passwd" | "credential"
        )
    };
    name.split(|c: char| !c.is_ascii_alphanumeric()).any(secret)
}

/// Options of ours that are called like secrets and have none: the names of a variable and of a header, and a share.
const HARMLESS: [&str; 3] = [
    "--endpoint-key-env",
    "--endpoint-key-header",
    "--token-merging",
];

/// The program's arguments as they are kept: without credentials in addresses, without what is given to variables, options and
/// headers that are called like secrets, and without what follows `Bearer`.
pub fn command_line(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut next = Next::Any;
    arguments
        .map(|argument| without_secrets(&prepose_untrusted::redact(&argument), &mut next))
        .collect()
}

/// What the word after one is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Any,
    Secret,
    /// The value of one of the [`HARMLESS`].
    Kept,
}

/// `next` is what the next word is, which may be in the next argument.
fn without_secrets(argument: &str, next: &mut Next) -> String {
    let part = |part: &str| {
        let word = part.trim_end();
        if word.is_empty() {
            return part.to_owned();
        }
        let this = *next;
        *next = match this {
            Next::Kept => Next::Any,
            Next::Any | Next::Secret => after(word),
        };
        let kept = match this {
            // After an option that was given nothing comes another one.
            Next::Secret if !word.starts_with("--") => 0,
            Next::Kept => word.len(),
            Next::Any | Next::Secret => without_value(word),
        };
        match kept < word.len() {
            true => format!("{}***{}", &word[..kept], &part[word.len()..]),
            false => part.to_owned(),
        }
    };
    argument
        .split_inclusive(char::is_whitespace)
        .map(part)
        .collect()
}

/// What the word after this one is: a secret after `--api-key`, `x-api-key:` or `Bearer`. Paths announce nothing.
fn after(word: &str) -> Next {
    let mut ends = word.rsplit(|c: char| !c.is_ascii_alphanumeric());
    let last = ends.find(|end| !end.is_empty()).unwrap_or_default();
    let name = word.trim_end_matches(':');
    if HARMLESS.contains(&name) {
        return Next::Kept;
    }
    let named = names_a_secret(name) && !name.contains(['=', ':', '/', '\\']);
    match named || last.eq_ignore_ascii_case("bearer") {
        true => Next::Secret,
        false => Next::Any,
    }
}

/// How many bytes of a word are kept: of `NAME=VALUE` and `NAME:VALUE` not the value if it is called like a secret.
fn without_value(word: &str) -> usize {
    match word.find(['=', ':']) {
        Some(at) if names_a_secret(&word[..at]) && !HARMLESS.contains(&&word[..at]) => at + 1,
        _ => word.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_kept_in_the_command_line() {
        let given = [
            "--endpoint",
            "https://me:SECRET@host/v1?key=SECRET",
            "--maker",
            "HF_TOKEN=SECRET python make.py --steps=3 --api-key=SECRET x",
            "--endpoint-set",
            "quality=low",
        ];
        let kept = command_line(given.into_iter().map(str::to_owned));
        assert_eq!(kept[1], "https://***@host/v1?***");
        assert_eq!(
            kept[3],
            "HF_TOKEN=*** python make.py --steps=3 --api-key=*** x"
        );
        assert_eq!(kept[5], "quality=low");
    }

    #[test]
    fn neither_are_those_that_stand_in_the_next_word() {
        let kept = |arguments: &[&str]| {
            let arguments = arguments.iter().map(|argument| (*argument).to_owned());
            command_line(arguments).join(" | ")
        };
        assert_eq!(
            kept(&["--maker", "python make.py --api-key sk-1  --steps 3"]),
            "--maker | python make.py --api-key ***  --steps 3"
        );
        assert_eq!(
            kept(&["--", "make.py", "--password", "sk-1", "--size", "8"]),
            "-- | make.py | --password | *** | --size | 8"
        );
        assert_eq!(
            kept(&[
                "curl -H 'Authorization: Bearer sk-1' -H x-api-key:sk-1 -H \"api-key: sk-1\" a"
            ]),
            "curl -H 'Authorization: Bearer *** -H x-api-key:*** -H \"api-key: *** a"
        );
        assert_eq!(kept(&["--token Bearer sk-1 a"]), "--token *** *** a");
        // An option without a value does not hide the next one.
        assert_eq!(kept(&["--use-token --steps 3"]), "--use-token --steps 3");
    }

    #[test]
    fn names_are_kept() {
        for given in [
            &["--endpoint-key-env", "OPENAI_API_KEY", "--size", "8x8"][..],
            &["--endpoint-key-env", "OPENAI_API_KEY", "spatialbench-uc"],
            &["--endpoint-key-env=OPENAI_API_KEY"],
            &["--endpoint-key-header", "api-key", "--parallel", "8"],
            &["--token-merging", "0.5"],
            &["/home/secret/prepose", "run", "spatialbench-uc"],
        ] {
            let arguments = given.iter().map(|argument| (*argument).to_owned());
            assert_eq!(command_line(arguments), given);
        }
    }
}
