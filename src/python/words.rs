//! Keyword arguments as the command line's words, so that both are read by the same rules: `guide_steps=5` is `--guide-steps=5`.

use std::ffi::{OsStr, OsString};

use clap::{ArgAction, Command};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};

use crate::error::{self, Class};

/// Reads options that the command `name` has as well: `first` are its arguments without a name, `keywords` the options,
/// of which those `without` are the command line's alone.
///
/// # Errors
/// `TypeError` for a keyword that is none, the package's error for options and values that make no sense.
pub fn read<T: clap::Args>(
    name: &'static str,
    first: &[&OsStr],
    keywords: Option<&Bound<PyDict>>,
    without: &[&str],
) -> PyResult<T> {
    let mut command = T::augment_args(Command::new(name).no_binary_name(true));
    command.build();
    let mut words = Vec::new();
    for (keyword, value) in keywords.into_iter().flatten() {
        let keyword: String = keyword.extract()?;
        let option = option(&command, &keyword, name, without)?;
        words.extend(of_option(option, &keyword, &value)?);
    }
    words.push("--".into());
    words.extend(first.iter().map(OsString::from));
    let matches = command.try_get_matches_from(words);
    let read = matches.and_then(|matches| T::from_arg_matches(&matches));
    read.map_err(|error| error::of_clap(&error))
}

/// The names of the options that [`read`] takes.
pub fn names<T: clap::Args>(without: &[&str]) -> Vec<String> {
    let command = T::augment_args(Command::new("options"));
    let mut names: Vec<String> = (command.get_arguments().filter_map(clap::Arg::get_long))
        .map(|long| long.replace('-', "_"))
        .filter(|name| !without.contains(&name.as_str()))
        .collect();
    names.sort();
    names
}

fn option<'a>(
    command: &'a Command,
    keyword: &str,
    name: &str,
    without: &[&str],
) -> PyResult<&'a clap::Arg> {
    let long = keyword.replace('_', "-");
    let is_it = |option: &&clap::Arg| option.get_long() == Some(&long);
    let found = command.get_arguments().find(is_it);
    let known = !without.contains(&keyword) && !keyword.contains('-') && keyword != "help";
    found.filter(|_| known).ok_or_else(|| {
        let others = command
            .get_arguments()
            .filter_map(clap::Arg::get_long)
            .map(|long| long.replace('-', "_"))
            .filter(|other| !without.contains(&other.as_str()));
        let near = others
            .map(|other| (strsim::jaro_winkler(keyword, &other), other))
            .filter(|(likeness, _)| *likeness > 0.8)
            .max_by(|(a, _), (b, _)| a.total_cmp(b));
        let hint = near.map(|(_, other)| format!("; did you mean {other:?}?"));
        PyTypeError::new_err(format!(
            "{name}() has no option {keyword:?}{}",
            hint.unwrap_or_default()
        ))
    })
}

fn of_option(option: &clap::Arg, keyword: &str, value: &Bound<PyAny>) -> PyResult<Vec<OsString>> {
    if value.is_none() {
        return Ok(Vec::new());
    }
    let long = option.get_long().unwrap_or_default();
    let alone = || OsString::from(format!("--{long}"));
    let with = |value: &OsStr| {
        let mut word = alone();
        word.push("=");
        word.push(value);
        word
    };
    if let Ok(flag) = value.cast::<PyBool>() {
        let takes_value = option.get_action().takes_values();
        let needs_value = option
            .get_num_args()
            .is_some_and(|values| values.min_values() > 0);
        return Ok(match (takes_value, needs_value, flag.is_true()) {
            (false, _, true) | (true, false, true) => vec![alone()],
            (true, true, flag) => vec![with(OsStr::new(if flag { "true" } else { "false" }))],
            (true, false, false) => {
                let values = option.get_possible_values();
                let off = values.iter().any(|value| value.get_name() == "off");
                Vec::from_iter(off.then(|| with(OsStr::new("off"))))
            }
            (false, _, false) => Vec::new(),
        });
    }
    if !option.get_action().takes_values() {
        return Err(error::new(
            value.py(),
            Class::Option,
            format!("{keyword} is either True or False"),
        ));
    }
    if matches!(option.get_action(), ArgAction::Append) {
        let each = several(keyword, value)?;
        let words = each.iter().map(|one| Ok(with(&text(one, joint(keyword))?)));
        return words.collect();
    }
    Ok(vec![with(&text(value, joint(keyword))?)])
}

/// What stands between the parts of one value.
fn joint(keyword: &str) -> &'static str {
    match keyword {
        "size" => "x",
        "relation" => " | ",
        "lora" => ":",
        _ => ",",
    }
}

/// The values of an option that may be repeated: of a list its elements, of a dictionary its pairs, else the one.
fn several<'py>(keyword: &str, value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Ok(pairs) = value.cast::<PyDict>() {
        return Ok(pairs.items().iter().collect());
    }
    if is_one(value) {
        return Ok(vec![value.clone()]);
    }
    let each: Vec<_> = value.try_iter()?.collect::<PyResult<_>>()?;
    // ("dog", "left of", "cat") is one relation, ["dog | left of | cat"] a list of them.
    let parts = |one: &Bound<PyAny>| {
        one.extract::<String>()
            .is_ok_and(|text| !text.contains('|'))
    };
    match keyword == "relation" && value.is_instance_of::<PyTuple>() && each.iter().all(parts) {
        true => Ok(vec![value.clone()]),
        false => Ok(each),
    }
}

fn is_one(value: &Bound<PyAny>) -> bool {
    value.is_instance_of::<PyString>()
        || value.hasattr("__fspath__").unwrap_or(false)
        || !value.hasattr("__iter__").unwrap_or(false)
}

/// One value in words; parts of it have `joint` between them, and a pair of a name and something else a colon.
fn text(value: &Bound<PyAny>, joint: &str) -> PyResult<OsString> {
    if let Ok(text) = value.extract::<OsString>() {
        return Ok(text);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(if flag.is_true() { "true" } else { "false" }.into());
    }
    if let Ok(pairs) = value.cast::<PyDict>() {
        let json = value.py().import("json")?;
        return json.call_method1("dumps", (pairs,))?.extract();
    }
    if is_one(value) {
        return Ok(value.str()?.to_string().into());
    }
    let parts: Vec<_> = value.try_iter()?.collect::<PyResult<_>>()?;
    if let [name, rest] = parts.as_slice()
        && !is_one(rest)
    {
        let mut word = text(name, joint)?;
        word.push(": ");
        word.push(text(rest, ",")?);
        return Ok(word);
    }
    let mut word = OsString::new();
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            word.push(joint);
        }
        word.push(text(part, joint)?);
    }
    Ok(word)
}
