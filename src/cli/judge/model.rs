//! A model on a server: which one, and how it is asked.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{bail, ensure};
use prepose::judge::ask::Judge as _;
use prepose::judge::chat::{ChatJudge, Sampling};
use prepose::suite::plan::JudgeId;
use prepose_remote::chat::{Chat, Dialect};
use prepose_remote::{Client, Key, Retry, Settings, Timeouts};
use serde_json::{Map, Value, json};

use crate::cli::interrupt;

/// The judge that needs no network.
pub const ORACLE: &str = "oracle";
/// The variable with a key, where no other is named.
const KEY: &str = "PREPOSE_JUDGE_KEY";

/// A model on a server.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Judge")]
pub struct ModelArgs {
    /// The address of an OpenAI-compatible server, such as http://localhost:8000/v1, or oracle, which answers from detections
    /// and geometry, offline. An API key is read from PREPOSE_JUDGE_KEY.
    #[arg(long, value_name = "URL|oracle")]
    pub judge: Option<String>,
    /// The model's name on that server; if it is asked about pictures, it must take them.
    #[arg(long, value_name = "NAME")]
    pub judge_model: Option<String>,
    /// The server's name in the book of answers, in place of its address, so that answers stay valid when the address changes.
    #[arg(long, value_name = "NAME", requires = "judge", hide_short_help = true)]
    judge_as: Option<String>,
    /// Another environment variable to read the key from.
    #[arg(
        long,
        value_name = "VARIABLE",
        requires = "judge",
        hide_short_help = true
    )]
    judge_key: Option<String>,
    /// Whose request format to use where servers differ: plain, openai (reasoning models), llama (llama.cpp and vLLM), ollama.
    #[arg(long, value_name = "NAME", requires = "judge", default_value = "plain", value_parser = parse_dialect, hide_short_help = true)]
    dialect: Dialect,
    /// The sampling temperature; 0 for the likeliest answer [default: 0; for SpatialGenEval 1, as in its scorer].
    #[arg(long, value_name = "T", requires = "judge", hide_short_help = true)]
    temperature: Option<f64>,
    /// The longest answer, in tokens, thinking included.
    #[arg(long, value_name = "N", requires = "judge", default_value_t = 1024, hide_short_help = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: u32,
    /// The seed of the model's random numbers, if the server supports one.
    #[arg(long, value_name = "N", requires = "judge", hide_short_help = true)]
    judge_seed: Option<u64>,
    /// Whether the model may think before it answers [default: as the server decides].
    #[arg(long, value_name = "yes|no", requires = "judge", value_parser = clap::builder::BoolishValueParser::new(), hide_possible_values = true, hide_short_help = true)]
    thinking: Option<bool>,
    /// Scale down pictures with a longer side than this before sending them.
    #[arg(long, value_name = "PIXELS", requires = "judge", hide_short_help = true,
          value_parser = clap::value_parser!(u32).range(16..))]
    largest: Option<u32>,
    /// Questions to ask at a time.
    #[arg(long, value_name = "N", requires = "judge", default_value_t = 4, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub concurrency: usize,
    /// How long the server has for an answer.
    #[arg(long, value_name = "SECONDS", requires = "judge", default_value_t = 120, hide_short_help = true,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    judge_timeout: u64,
    /// How often to send a question before giving up, where trying again can help.
    #[arg(long, value_name = "N", requires = "judge", default_value_t = 6, hide_short_help = true,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    attempts: u32,
    /// The prices of a million tokens, of questions and of answers: 0.15,0.60.
    #[arg(long, value_name = "IN,OUT", requires = "judge", value_parser = parse_price, hide_short_help = true)]
    price: Option<Price>,
    /// Further request fields, as a JSON object: {"top_p": 0.95}.
    #[arg(long, value_name = "JSON", requires = "judge", value_parser = parse_extra, hide_short_help = true)]
    judge_extra: Option<Extra>,
}

/// Further fields of a request.
#[derive(Clone, Debug)]
struct Extra(Map<String, Value>);

fn parse_extra(text: &str) -> Result<Extra, String> {
    serde_json::from_str(text)
        .map(Extra)
        .map_err(|error| format!("no JSON object: {error}"))
}

/// What tokens cost.
#[derive(Clone, Copy, Debug)]
struct Price {
    question: f64,
    answer: f64,
}

fn parse_price(text: &str) -> Result<Price, String> {
    let number = |text: &str| {
        text.trim()
            .parse()
            .ok()
            .filter(|price: &f64| *price >= 0.0 && price.is_finite())
    };
    let pair = text.split_once(',').and_then(|(question, answer)| {
        Some(Price {
            question: number(question)?,
            answer: number(answer)?,
        })
    });
    pair.ok_or_else(|| {
        "a price has two numbers, of a million tokens of questions and of answers: 0.15,0.60".into()
    })
}

fn parse_dialect(text: &str) -> Result<Dialect, String> {
    serde_json::from_value(json!(text))
        .map_err(|_| "there are plain, openai, llama and ollama".into())
}

/// The option `--judge` where texts are written and read, which no box can do: the oracle is not offered.
pub fn of_a_server(judge: clap::Arg) -> clap::Arg {
    judge.value_name("URL").help(
        "The address of an OpenAI-compatible server, such as http://localhost:8000/v1. An API key is read from PREPOSE_JUDGE_KEY",
    )
}

/// An option of a model that is sent no pictures: what is about those is not shown.
pub fn of_texts(option: clap::Arg) -> clap::Arg {
    match option.get_id().as_str() {
        "largest" => option.hide(true),
        _ => option,
    }
}

/// An option of a model that writes texts: they are longer than answers about pictures, and so is what is thought before them.
pub fn of_a_writer(option: clap::Arg) -> clap::Arg {
    match option.get_id().as_str() {
        "max_tokens" => option.default_value("8192"),
        "judge_timeout" => option.default_value("300"),
        _ => option,
    }
}

impl ModelArgs {
    /// Whether no server is named.
    pub fn is_oracle(&self) -> bool {
        self.judge.as_deref().is_none_or(|judge| judge == ORACLE)
    }

    /// Whether a judge is named at all.
    pub fn is_given(&self) -> bool {
        self.judge.is_some()
    }

    /// Refuses what does not go together.
    pub fn check(&self) -> anyhow::Result<()> {
        if let Some(variable) = &self.judge_key {
            Key::from_variable(variable)?;
        }
        match self.is_oracle() {
            true => ensure!(
                self.judge_model.is_none(),
                "--judge-model needs --judge with the address of its server"
            ),
            false => ensure!(
                self.judge_model.is_some(),
                "--judge needs --judge-model: the model's name on that server"
            ),
        }
        Ok(())
    }

    /// Who it is, for tables.
    pub fn name(&self) -> &str {
        self.judge_model.as_deref().unwrap_or(ORACLE)
    }

    /// Who it is and how it is asked, as folders keep it whose pictures depend on that.
    pub fn id(&self) -> anyhow::Result<JudgeId> {
        if self.is_oracle() {
            return Ok(JudgeId {
                model: ORACLE.into(),
                settings: Value::Null,
            });
        }
        let model = self.model_until(Arc::default(), 0)?;
        let mut settings = model.settings();
        let server = settings["server"].as_str().map(without_local_port);
        if let Some(server) = server {
            settings["server"] = server.into();
        }
        Ok(JudgeId {
            model: model.model().into(),
            settings,
        })
    }

    /// The model, and what ends the asking when it becomes true.
    pub fn model(&self) -> anyhow::Result<(ChatJudge, Arc<AtomicBool>)> {
        self.model_at(0.0)
    }

    /// Whether the seed of the model's random numbers is given.
    pub fn is_seeded(&self) -> bool {
        self.judge_seed.is_some()
    }

    /// As [`model`](Self::model), with another temperature where none is given.
    pub fn model_at(&self, usual: f64) -> anyhow::Result<(ChatJudge, Arc<AtomicBool>)> {
        // A mistake in the arguments is told before signals are taken.
        self.check()?;
        let stop = interrupt::listen()?;
        Ok((self.opened(stop.clone(), 0, usual)?, stop))
    }

    /// The model, asked until `stop` becomes true; `round` is which time the same is asked, from 0.
    pub fn model_until(&self, stop: Arc<AtomicBool>, round: u64) -> anyhow::Result<ChatJudge> {
        self.opened(stop, round, 0.0)
    }

    /// As [`model_until`](Self::model_until), with another temperature where none is given.
    pub fn opened(
        &self,
        stop: Arc<AtomicBool>,
        round: u64,
        usual: f64,
    ) -> anyhow::Result<ChatJudge> {
        let temperature = self.temperature.unwrap_or(usual);
        let (Some(model), Some(address)) = (&self.judge_model, &self.judge) else {
            bail!("--judge needs --judge-model: the model's name on that server");
        };
        ensure!(
            (0.0..=2.0).contains(&temperature),
            "--temperature is {temperature}, but must be from 0 to 2"
        );
        let key = match &self.judge_key {
            Some(variable) => Some(Key::from_variable(variable)?),
            None if std::env::var_os(KEY).is_some_and(|key| !key.is_empty()) => {
                Some(Key::from_variable(KEY)?)
            }
            None => None,
        };
        let settings = Settings {
            timeouts: Timeouts {
                answer: Duration::from_secs(self.judge_timeout),
                ..Timeouts::default()
            },
            retry: Retry {
                attempts: self.attempts,
                ..Retry::default()
            },
            stop,
            ..Settings::default()
        };
        let client = Client::new(address, key, settings)?;
        let sampling = Sampling {
            temperature,
            max_tokens: self.max_tokens,
            seed: self.judge_seed,
            thinking: self.thinking,
            extra: self
                .judge_extra
                .clone()
                .map(|extra| extra.0)
                .unwrap_or_default(),
            largest: self.largest,
            round,
        };
        let chat = Chat::new(client, model, self.dialect);
        let judge = ChatJudge::new(chat, sampling);
        Ok(match &self.judge_as {
            Some(name) => judge.called(name.as_str()),
            None => judge,
        })
    }

    /// What so many tokens cost, if somebody said what they do.
    pub fn cost(&self, question: u64, answer: u64) -> Option<f64> {
        let price = self.price?;
        Some((question as f64 * price.question + answer as f64 * price.answer) / 1e6)
    }
}

/// A server's address; without its port if it is on this machine, where the same model may have another one next time.
fn without_local_port(server: &str) -> String {
    let local = || {
        let (scheme, rest) = server.split_once("://")?;
        let (place, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (host, port) = place.rsplit_once(':')?;
        let is_local = matches!(host, "localhost" | "[::1]") || host.starts_with("127.");
        let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
        (is_local && is_port).then(|| format!("{scheme}://{host}{path}"))
    };
    local().unwrap_or_else(|| server.into())
}

#[cfg(test)]
mod tests {
    use super::without_local_port;

    #[test]
    fn ports_of_this_machine_do_not_tell_judges_apart() {
        for (server, kept) in [
            ("http://127.0.0.1:8931/v1", "http://127.0.0.1/v1"),
            ("http://localhost:8000", "http://localhost"),
            ("http://[::1]:8000/v1?***", "http://[::1]/v1?***"),
            ("http://[::1]/v1", "http://[::1]/v1"),
            ("https://example.org:8443/v1", "https://example.org:8443/v1"),
            ("cluster", "cluster"),
        ] {
            assert_eq!(without_local_port(server), kept);
        }
    }
}
