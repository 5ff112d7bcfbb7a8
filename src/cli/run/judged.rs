//! The judge of a run: of its searches' candidates, and of its finished pictures.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{bail, ensure};
use prepose::judge::ask::Judge as _;
use prepose::suite::folder::RunFolder;
use prepose::suite::method::Method;
use prepose::suite::plan::JudgeId;
use serde_json::Value;

use super::args::Settings;
use super::detectors;
use crate::cli::interrupt;
use crate::cli::judge::model::ORACLE;
use crate::cli::judge::pictures::Eyes;
use crate::cli::judge::prompted::{self, OpenModel, PromptedArgs};

/// Asks a judge about the finished pictures, and tells what it says.
pub fn judge_finished(
    judge: &PromptedArgs,
    folder: &RunFolder,
    settings: &Settings,
    quiet: bool,
) -> anyhow::Result<u8> {
    let stop = interrupt::listen_twice()?.soon;
    let eyes = Eyes {
        checker: Some(settings.checker()).filter(|checker| *checker != detectors::NONE),
        device: settings.model.device,
    };
    let (results, totals) = judge.judge_run(folder, &eyes, &stop, quiet || settings.json)?;
    if !quiet {
        let place = PathBuf::from(folder.store().location()).join(prompted::FOLDER);
        prompted::print(&results, judge, &totals, settings.json, &place)?;
    }
    Ok(prompted::exit_code(&totals))
}

/// Refuses searches by a judge without one.
pub fn check_judge(methods: &[Method], args: &Settings) -> anyhow::Result<()> {
    let Some(method) = methods.iter().find(|method| method.asks_judge()) else {
        return Ok(());
    };
    let Some(judge) = &args.judge else {
        bail!(
            "{} scores candidates by a judge: name one with --judge and --judge-model, or --judge oracle",
            method.name
        );
    };
    ensure!(
        !judge.model.is_oracle() || args.checker() != detectors::NONE,
        "{} scores candidates by the oracle, which sees what a detector sees, but there is no checker (--checker none)",
        method.name
    );
    Ok(())
}

/// Who scores candidates, as the run's settings have it.
pub fn judge_id(judge: &PromptedArgs) -> anyhow::Result<JudgeId> {
    if judge.model.is_oracle() {
        return Ok(JudgeId {
            model: ORACLE.into(),
            settings: Value::Null,
        });
    }
    let model = judge.model.model_until(Arc::default(), 0)?;
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

/// Opens the model that scores candidates, if there is one.
pub fn open_model(
    judge: Option<&PromptedArgs>,
    folder: &RunFolder,
    stop: &interrupt::Requested,
) -> anyhow::Result<OpenModel> {
    match judge {
        Some(judge) => judge.open_model(folder, &stop.at_once),
        None => Ok(None),
    }
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
