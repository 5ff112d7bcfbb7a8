//! Which options were given, rather than left at their defaults.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// The options that were given. It has none of its own; flattened into a command's options it must stand first, as the others take
/// their values away.
#[derive(Debug)]
pub struct Given(Vec<String>);

impl Given {
    /// The first of these options that was given, as it is written; they are named as the fields that hold them.
    pub fn first_of(&self, options: &[&str]) -> Option<String> {
        let given = |option: &&&str| self.0.iter().any(|one| one == **option);
        let first = options.iter().find(given)?;
        Some(format!("--{}", first.replace('_', "-")))
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let ids = matches.ids().map(clap::Id::as_str);
        Ok(Self(ids.filter(given).map(str::to_owned).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        given: Given,
        #[arg(long, default_value_t = 3)]
        most_rounds: usize,
        #[arg(long)]
        other: bool,
    }

    #[test]
    fn defaults_are_not_given() {
        let given = |args: &[&str]| Program::try_parse_from(args).unwrap();
        let none = given(&["program"]);
        assert_eq!(none.given.first_of(&["most_rounds", "other"]), None);
        let both = given(&["program", "--other", "--most-rounds", "3"]);
        let first = both.given.first_of(&["most_rounds", "other"]);
        assert_eq!(first.as_deref(), Some("--most-rounds"));
        assert!(both.other && both.most_rounds == 3);
    }
}
