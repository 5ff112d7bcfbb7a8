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

/// The program's arguments as they are kept: without credentials in addresses, and without what is given to variables and
/// options that are called like secrets.
pub fn command_line(arguments: impl Iterator<Item = String>) -> Vec<String> {
    arguments
        .map(|argument| without_secrets(&prepose_untrusted::redact(&argument)))
        .collect()
}

fn without_secrets(argument: &str) -> String {
    let part = |part: &str| match part.split_once('=') {
        Some((name, value)) if names_a_secret(name) && !value.trim_end().is_empty() => {
            let end = if part.ends_with(char::is_whitespace) {
                " "
            } else {
                ""
            };
            format!("{name}=***{end}")
        }
        _ => part.to_owned(),
    };
    argument
        .split_inclusive(char::is_whitespace)
        .map(part)
        .collect()
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
}
