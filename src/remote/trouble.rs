//! What servers say when something is wrong: several families of JSON, or none.

use std::time::Duration;

use prepose_untrusted::printable;
use serde_json::Value;

use crate::retry::written;

/// What an answer says of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// For people.
    pub message: String,
    /// For programs.
    pub code: Option<String>,
    /// The type, where it is not the code.
    pub kind: Option<String>,
    /// The field that it is about.
    pub param: Option<String>,
    /// How long to wait.
    pub wait: Option<Duration>,
}

/// What OpenRouter adds to an error, besides the code 403, if content is not allowed.
const FLAGGED: &str = "flagged_input";

/// Words for content that is not allowed: OpenAI's, older ones, Azure's, and what others copied from them.
const REFUSALS: [&str; 7] = [
    "moderation_blocked",
    "content_policy_violation",
    "content_filter",
    "responsibleaipolicyviolation",
    "safety_violation",
    "prompt_blocked",
    FLAGGED,
];

/// Words for money that is missing. They come with 429 or 400, and asking again is of no use.
const PAYMENTS: [&str; 5] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "insufficient_credits",
    "payment_required",
];

impl Trouble {
    /// Reads the body of an answer that is no success.
    pub fn read(body: &[u8]) -> Self {
        let Ok(json) = serde_json::from_slice::<Value>(body) else {
            let text = String::from_utf8_lossy(body);
            let text = without_tags(&text);
            let message = match text.is_empty() {
                true => "no reason given".into(),
                false => printable(&text).to_string(),
            };
            return Self {
                message,
                ..Self::default()
            };
        };
        // Gemini's errors are in a list.
        let json = match json {
            Value::Array(mut all) if !all.is_empty() => all.swap_remove(0),
            other => other,
        };
        Self::of(&json)
    }

    /// What an answer says of an error although its status is success, and the status that it stands for. A server that
    /// sends its status before the model breaks down, such as OpenRouter, has no other place for it. An error that is words
    /// alone stands for none: LM Studio says so that it does not know an address.
    pub fn despite_success(json: &Value) -> Option<(u16, Self)> {
        let present = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
        let broken = |choice: &Value| {
            let finish = choice.get("finish_reason").and_then(Value::as_str);
            matches!(finish, Some("error" | "network_error"))
        };
        let (said, unnamed) = match json.pointer("/choices/0") {
            Some(choice) if present(choice.get("error")) => (Self::of(choice), 502),
            Some(choice) if broken(choice) => {
                let said = Self {
                    message: "the model broke off its answer".into(),
                    ..Self::default()
                };
                (said, 502)
            }
            None if json.get("error").is_some_and(Value::is_object)
                && !present(json.get("data")) =>
            {
                (Self::of(json), 500)
            }
            _ => return None,
        };
        let named = (said.code.as_deref()).and_then(|code| code.parse::<u16>().ok());
        let status = named.filter(|status| (400..600).contains(status));
        Some((status.unwrap_or(unnamed), said))
    }

    fn of(json: &Value) -> Self {
        let error = json.get("error").filter(|error| !error.is_null());
        let inside = error.filter(|error| error.is_object()).unwrap_or(json);
        let text = |value: Option<&Value>| match value {
            Some(Value::String(text)) if !text.is_empty() => Some(printable(text).to_string()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let azure = inside
            .pointer("/inner_error/code")
            .or_else(|| inside.pointer("/innererror/code"));
        let message = text(inside.get("message"))
            .or_else(|| text(error))
            .or_else(|| detail(json))
            .or_else(|| text(json.get("errors")))
            .unwrap_or_else(|| printable(&json.to_string()).to_string());
        let details = text(inside.get("details"));
        let flagged = inside.get("metadata").and_then(|more| more.get(FLAGGED));
        Self {
            message: match details {
                Some(details) => format!("{message}: {details}"),
                None => message,
            },
            code: text(azure).or_else(|| text(inside.get("code"))),
            kind: text(inside.get("type"))
                .or_else(|| text(inside.get("status")))
                .or_else(|| flagged.map(|_| FLAGGED.into())),
            param: text(inside.get("param")),
            wait: delay(inside),
        }
    }

    /// The word for content that is not allowed, if that is what it is.
    pub fn refusal(&self) -> Option<String> {
        self.word(|word| REFUSALS.contains(&word))
    }

    /// The word for money that is missing, if that is what it is.
    pub fn payment(&self) -> Option<String> {
        self.word(|word| PAYMENTS.contains(&word) || word.ends_with("_spend_limit_exceeded"))
    }

    fn word(&self, is: impl Fn(&str) -> bool) -> Option<String> {
        let words = [&self.code, &self.kind].into_iter().flatten();
        let mut words = words.map(|word| word.to_ascii_lowercase());
        words.find(|word| is(word))
    }
}

/// FastAPI's: a text, or a list of what is wrong where.
fn detail(json: &Value) -> Option<String> {
    match json.get("detail")? {
        Value::String(text) => Some(printable(text).to_string()),
        Value::Array(all) => {
            let one = |one: &Value| {
                let place = one.get("loc").and_then(Value::as_array);
                let place: Vec<String> = (place.into_iter().flatten())
                    .map(|part| {
                        part.as_str()
                            .map_or_else(|| part.to_string(), str::to_owned)
                    })
                    .collect();
                let why = one.get("msg").and_then(Value::as_str)?;
                Some(printable(&format!("{}: {why}", place.join("."))).to_string())
            };
            let each: Vec<String> = all.iter().take(3).filter_map(one).collect();
            (!each.is_empty()).then(|| each.join("; "))
        }
        _ => None,
    }
}

/// Gemini's `details: [{retryDelay: "17s"}]`.
fn delay(error: &Value) -> Option<Duration> {
    let details = error.get("details")?.as_array()?.iter();
    let mut delays = details.filter_map(|detail| detail.get("retryDelay")?.as_str());
    delays.next().and_then(written)
}

/// A page of HTML as its words.
fn without_tags(text: &str) -> String {
    let mut words = String::new();
    let mut inside = false;
    for c in text.chars().take(4000) {
        match c {
            '<' => inside = true,
            '>' if inside => {
                inside = false;
                words.push(' ');
            }
            c if !inside => words.push(c),
            _ => {}
        }
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_all_families_are_read() {
        for (body, message, code) in [
            (
                r#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#,
                "m",
                Some("c"),
            ),
            (r#"{"error":{"code":400,"message":"m"}}"#, "m", Some("400")),
            (
                r#"{"object":"error","message":"m","code":40001}"#,
                "m",
                Some("40001"),
            ),
            (r#"{"error":"m"}"#, "m", None),
            (
                r#"[{"error":{"code":429,"message":"m","details":[{"retryDelay":"17s"}]}}]"#,
                "m",
                Some("429"),
            ),
            (r#"{"detail":"m"}"#, "m", None),
            (
                r#"{"detail":[{"loc":["body","size"],"msg":"m","type":"t"}]}"#,
                "body.size: m",
                None,
            ),
            (
                r#"{"error":{"code":"content_filter","message":"m","inner_error":{"code":"ResponsibleAIPolicyViolation"}}}"#,
                "m",
                Some("ResponsibleAIPolicyViolation"),
            ),
            (
                r#"{"error":{"type":"prompt_no_outputs","message":"m","details":"d"}}"#,
                "m: d",
                None,
            ),
            (
                "<html><body><h1>Bad Gateway</h1>nginx</body></html>",
                "Bad Gateway nginx",
                None,
            ),
            ("", "no reason given", None),
            ("\u{1b}[2J", "\\u{1b}[2J", None),
            (r#"{"what":1}"#, "{\"what\":1}", None),
        ] {
            let read = Trouble::read(body.as_bytes());
            assert_eq!(
                (read.message.as_str(), read.code.as_deref()),
                (message, code),
                "{body}"
            );
        }
        let gemini =
            br#"[{"error":{"code":429,"message":"m","details":[{"x":1},{"retryDelay":"17s"}]}}]"#;
        assert_eq!(Trouble::read(gemini).wait, Some(Duration::from_secs(17)));
        assert!(Trouble::read(&[0xff; 100_000]).message.len() < 1000);
    }

    #[test]
    fn refusals_and_bills_are_told_apart() {
        let of = |code: &str| {
            Trouble::read(format!(r#"{{"error":{{"message":"m","code":"{code}"}}}}"#).as_bytes())
        };
        assert_eq!(
            of("moderation_blocked").refusal().as_deref(),
            Some("moderation_blocked")
        );
        let openrouter = br#"{"error":{"code":403,"message":"m","metadata":{"reasons":["violence"],"flagged_input":"x"}}}"#;
        assert_eq!(
            Trouble::read(openrouter).refusal().as_deref(),
            Some("flagged_input")
        );
        assert_eq!(
            of("insufficient_quota").payment().as_deref(),
            Some("insufficient_quota")
        );
        assert_eq!(of("project_spend_limit_exceeded").refusal(), None);
        assert!(of("project_spend_limit_exceeded").payment().is_some());
        assert!(of("rate_limit_exceeded").payment().is_none());
    }
}
