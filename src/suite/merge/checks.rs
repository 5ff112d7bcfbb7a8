//! Whether shards are one whole run, undamaged, and the joined one is not another; their pictures are not looked at.

use std::collections::HashSet;
use std::sync::Arc;

use super::MergeError;
use crate::store::Store;
use crate::store::ledger::{Fault, LEDGER, Look};
use crate::suite::folder::{FolderError, RunFolder};
use crate::suite::growth::union;
use crate::suite::plan::Plan;

/// Refuses shards of which a file is not as it was written.
pub(super) fn undamaged(shards: &[RunFolder]) -> Result<(), MergeError> {
    for run in shards {
        let mut damage = run.damage(Look::Quick)?;
        // A shard of an earlier version lists nothing; what is in its files is compared all the same.
        damage.retain(|damage| damage.fault != Fault::Unlisted && damage.name != LEDGER);
        if !damage.is_empty() {
            return Err(MergeError::Damaged {
                location: run.store().location(),
                damage,
            });
        }
    }
    Ok(())
}

/// Refuses a joined run that has other settings than the shards' plan, or pictures that it has not.
pub(super) fn has_no_more(out: &Arc<dyn Store>, plan: &Plan) -> Result<(), MergeError> {
    // Whoever begins the joined run says what is wrong with one that cannot be read.
    let Ok(run) = RunFolder::open(out.clone()) else {
        return Ok(());
    };
    let there = run.plan();
    let both = union(there, plan).map_err(|contradictions| FolderError::OtherSettings {
        location: out.location(),
        contradictions,
    })?;
    if both.len() == plan.len() {
        return Ok(());
    }
    let shared = |count: fn(&Plan) -> usize| count(there) + count(plan) - count(&both);
    let shared = shared(|plan| plan.config.methods.len())
        * shared(|plan| plan.prompts.len())
        * shared(|plan| plan.config.seeds.len());
    Err(MergeError::More {
        location: out.location(),
        there: there.len(),
        lacking: there.len() - shared,
    })
}

/// Refuses a joined run in which a folder that one of these files goes into is a link.
pub(super) fn has_no_links<'a>(
    out: &dyn Store,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), MergeError> {
    let mut folders = HashSet::new();
    for name in names {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        if folders.insert(folder) {
            out.check_place(name)?;
        }
    }
    Ok(())
}

/// The plan of the whole run, if the shards are all of it: what any of them has, as some may not have grown yet.
pub(super) fn same_run(shards: &[RunFolder]) -> Result<Plan, MergeError> {
    let Some(first) = shards.first() else {
        return Err(MergeError::Nothing);
    };
    let whole = |run: &RunFolder| {
        let mut plan = run.plan().clone();
        match plan.config.shard.take() {
            Some(shard) => Ok((plan, shard)),
            None => Err(MergeError::NoShard(run.store().location())),
        }
    };
    let (mut plan, first_shard) = whole(first)?;
    let count = first_shard.count();
    let mut there = vec![false; count];
    for run in shards {
        let (a, b) = (first.store().location(), run.store().location());
        let (its_plan, shard) = whole(run)?;
        if shard.count() != count {
            return Err(MergeError::Count {
                a,
                a_shard: first_shard,
                b,
                b_shard: shard,
            });
        }
        plan = union(&plan, &its_plan).map_err(|contradictions| MergeError::Settings {
            a,
            b,
            contradictions,
        })?;
        there[shard.index()] = true;
    }
    let missing: Vec<_> = (0..count).filter(|index| !there[*index]).collect();
    match missing.is_empty() {
        true => Ok(plan),
        false => Err(MergeError::Missing { missing, count }),
    }
}
