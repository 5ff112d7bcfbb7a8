//! Downloads: what is missing is fetched, what is here is checked, and a file gets its name when its
//! size and hash are right. An interrupted download is continued where it stopped.

use super::plan::{Plan, plan};
use super::request::{PullEvent, PullRequest, Pulled};
use super::session::Session;
use super::{HubError, HubSettings};

/// Downloads what `request` names into the cache, or finds it there and checks it.
///
/// # Errors
/// [`HubError`]. What has arrived of an interrupted download is kept and continued by the next call;
/// a download that fails its check is removed.
pub fn pull(
    request: &PullRequest,
    settings: &HubSettings,
    progress: &mut dyn FnMut(PullEvent),
) -> Result<Pulled, HubError> {
    let Plan {
        repo,
        revision,
        files,
    } = plan(request, settings)?;
    let mut session = Session::new(&repo, revision, settings)?;
    let folder = files.is_none();
    let files = match files {
        Some(files) => files,
        None => session.choose()?,
    };
    let mut paths = Vec::new();
    for file in &files {
        paths.push(session.file(file, progress)?);
    }
    let commit = session.commit.clone().unwrap_or_default();
    let first = paths.first().map(|(path, _)| path.clone());
    let path = match (folder, first) {
        (false, Some(first)) => first,
        _ => session.cache.snapshot(&commit),
    };
    if commit != session.revision && !settings.offline {
        session.cache.note_commit(&session.revision, &commit)?;
    }
    Ok(Pulled {
        path,
        repo,
        commit,
        files: paths,
    })
}
