//! Which shard this is: as the command line says, or Slurm, or Kubernetes.

use super::{COUNT_VARIABLE, Shard, ShardError};

impl Shard {
    /// The part of a run to make: as `given` with `--shard`; else as the scheduler says, with `count` shards from
    /// `--shards` or the variable [`COUNT_VARIABLE`]. None is all of it, as is shard 0 of 1. `environment` looks a
    /// variable up.
    ///
    /// Without a count, the tasks of a Slurm array are the shards in their order, whatever their ids. With one, a
    /// task's id *is* its shard, so that some of them can be submitted again on their own.
    ///
    /// # Errors
    /// What is said does not make one shard.
    pub fn choose(
        given: Option<Self>,
        count: Option<usize>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, ShardError> {
        let divided = |shard: Self| (shard.count > 1).then_some(shard);
        if let Some(shard) = given {
            return Ok(divided(shard));
        }
        let number = |variable| read(&environment, variable);
        let count = match count {
            None => number(COUNT_VARIABLE)?,
            given => given,
        };
        if let Some(count) = count {
            Self::new(0, count)?;
        }
        let slurm = from_slurm(count, number)?;
        let kubernetes = from_kubernetes(count, number)?;
        match (slurm, kubernetes, count) {
            (Some(slurm), Some(kubernetes), _) if slurm != kubernetes => {
                Err(ShardError::Contradiction { slurm, kubernetes })
            }
            (Some(shard), _, _) | (None, Some(shard), _) => Ok(divided(shard)),
            (None, None, Some(count)) if count > 1 => Err(ShardError::NoIndex { count }),
            (None, None, _) => Ok(None),
        }
    }
}

fn read(
    environment: &impl Fn(&str) -> Option<String>,
    variable: &'static str,
) -> Result<Option<usize>, ShardError> {
    match environment(variable) {
        None => Ok(None),
        Some(value) => match value.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(ShardError::Number { variable, value }),
        },
    }
}

fn from_slurm(
    count: Option<usize>,
    number: impl Fn(&'static str) -> Result<Option<usize>, ShardError>,
) -> Result<Option<Shard>, ShardError> {
    let Some(id) = number("SLURM_ARRAY_TASK_ID")? else {
        return Ok(None);
    };
    if let Some(count) = count {
        let last = number("SLURM_ARRAY_TASK_MAX")?.unwrap_or(id).max(id);
        if last >= count {
            return Err(ShardError::Range {
                variable: "SLURM_ARRAY_TASK_ID",
                count,
                last,
            });
        }
        return Shard::new(id, count).map(Some);
    }
    let need = |variable| number(variable)?.ok_or(ShardError::Missing(variable));
    let tasks = need("SLURM_ARRAY_TASK_COUNT")?;
    let first = need("SLURM_ARRAY_TASK_MIN")?;
    let last = need("SLURM_ARRAY_TASK_MAX")?;
    let step = number("SLURM_ARRAY_TASK_STEP")?.unwrap_or(1).max(1);
    let slots = last.saturating_sub(first) / step + 1;
    let place = id.checked_sub(first).filter(|offset| offset % step == 0);
    match place {
        Some(offset) if tasks == slots => Shard::new(offset / step, slots).map(Some),
        _ => Err(ShardError::Gaps {
            tasks,
            first,
            last,
            step,
            slots,
        }),
    }
}

fn from_kubernetes(
    count: Option<usize>,
    number: impl Fn(&'static str) -> Result<Option<usize>, ShardError>,
) -> Result<Option<Shard>, ShardError> {
    const VARIABLE: &str = "JOB_COMPLETION_INDEX";
    match (number(VARIABLE)?, count) {
        (None, _) => Ok(None),
        (Some(index), None) => Err(ShardError::NoCount { index }),
        (Some(index), Some(count)) if index >= count => Err(ShardError::Range {
            variable: VARIABLE,
            count,
            last: index,
        }),
        (Some(index), Some(count)) => Shard::new(index, count).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(
        count: Option<usize>,
        variables: &[(&str, &str)],
    ) -> Result<Option<Shard>, ShardError> {
        Shard::choose(None, count, |name| {
            let mut found = variables.iter().filter(|(variable, _)| *variable == name);
            found.next().map(|(_, value)| (*value).into())
        })
    }

    fn slurm<'a>(
        id: &'a str,
        count: &'a str,
        min: &'a str,
        max: &'a str,
    ) -> [(&'a str, &'a str); 4] {
        [
            ("SLURM_ARRAY_TASK_ID", id),
            ("SLURM_ARRAY_TASK_COUNT", count),
            ("SLURM_ARRAY_TASK_MIN", min),
            ("SLURM_ARRAY_TASK_MAX", max),
        ]
    }

    #[test]
    fn without_a_scheduler_it_is_the_whole() {
        assert_eq!(choose(None, &[]), Ok(None));
        assert_eq!(choose(Some(1), &[]), Ok(None));
        assert_eq!(choose(None, &slurm("5", "1", "5", "5")), Ok(None));
        let all = |_: &str| Some("7".to_string());
        for (given, chosen) in [("2/3", Shard::new(2, 3).ok()), ("0/1", None)] {
            let given = given.parse().ok();
            assert_eq!(Shard::choose(given, None, all), Ok(chosen));
        }
    }

    #[test]
    fn slurm_says_which() {
        let is = |variables: &[_], index, count| {
            assert_eq!(choose(None, variables), Shard::new(index, count).map(Some));
        };
        is(&slurm("0", "4", "0", "3"), 0, 4);
        is(&slurm("4", "4", "1", "4"), 3, 4);
        let mut steps = slurm("10", "3", "5", "15").to_vec();
        steps.push(("SLURM_ARRAY_TASK_STEP", "5"));
        is(&steps, 1, 3);
        // One task of several, submitted again.
        let again = choose(Some(8), &slurm("5", "2", "2", "5"));
        assert_eq!(again, Shard::new(5, 8).map(Some));
        let mut variable = slurm("5", "2", "2", "5").to_vec();
        variable.push((COUNT_VARIABLE, "8"));
        is(&variable, 5, 8);
    }

    #[test]
    fn kubernetes_says_which() {
        let index = [("JOB_COMPLETION_INDEX", "2")];
        assert_eq!(choose(Some(4), &index), Shard::new(2, 4).map(Some));
        let both = [("JOB_COMPLETION_INDEX", "2"), (COUNT_VARIABLE, "3")];
        assert_eq!(choose(None, &both), Shard::new(2, 3).map(Some));
        // The command line is nearer than the environment.
        assert_eq!(choose(Some(5), &both), Shard::new(2, 5).map(Some));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut both = slurm("1", "4", "0", "3").to_vec();
        both.push(("JOB_COMPLETION_INDEX", "2"));
        for (count, variables, wanted) in [
            (
                Some(4),
                &[][..],
                "neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX",
            ),
            (Some(0), &[][..], "0 shards"),
            (
                None,
                &slurm("3", "3", "0", "7")[..],
                "would be 8: say with --shards",
            ),
            (
                None,
                &slurm("x", "3", "0", "2")[..],
                "SLURM_ARRAY_TASK_ID=\"x\" is not",
            ),
            (
                None,
                &slurm("1", "3", "0", "2")[..2],
                "SLURM_ARRAY_TASK_MIN is not",
            ),
            (
                Some(4),
                &slurm("1", "4", "1", "4")[..],
                "Slurm: --array=0-3",
            ),
            (
                None,
                &[("JOB_COMPLETION_INDEX", "2")][..],
                "but not of how many",
            ),
            (
                Some(2),
                &[("JOB_COMPLETION_INDEX", "2")][..],
                "must be from 0 to 1",
            ),
            (
                Some(4),
                &both[..],
                "says shard 1/4 and JOB_COMPLETION_INDEX says shard 2/4",
            ),
            (
                None,
                &[(COUNT_VARIABLE, "many")][..],
                "PREPOSE_SHARDS=\"many\"",
            ),
        ] {
            let error = choose(count, variables).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
