//! A run's settings and prompts: begun, read, grown, and brought back.

use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::{CONFIG, FolderError, PROMPTS, RunFolder, Wanted};
use crate::store::Store;
use crate::store::ledger::{Damage, Fault, Ledger, Listed, is_folder};
use crate::suite::growth;
use crate::suite::plan::{Plan, prompts_file};

/// What a run is about to become, while its settings and prompts are replaced: both, in one file.
const GROWING: &str = "growing.json";

/// What was found when a run was taken up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Methods that the run did not have.
    pub methods: Vec<String>,
    /// Prompts that it did not have.
    pub prompts: usize,
    /// Seeds that it did not have.
    pub seeds: usize,
    /// Pictures of the run that were not asked for now.
    pub not_asked: usize,
    /// Its settings or prompts, if they were not as they were written.
    pub settings: Vec<Damage>,
}

/// The texts of a run's settings and prompts.
#[derive(Serialize, Deserialize)]
struct Texts {
    config: String,
    prompts: String,
}

impl Texts {
    fn of(plan: &Plan) -> serde_json::Result<Self> {
        Ok(Self {
            config: serde_json::to_string_pretty(&plan.config)? + "\n",
            prompts: prompts_file(&plan.prompts)?,
        })
    }

    fn named(&self) -> [(&'static str, &str); 2] {
        [(PROMPTS, &self.prompts), (CONFIG, &self.config)]
    }

    fn put(&self, store: &dyn Store) -> Result<(), FolderError> {
        for (name, text) in self.named() {
            store.put(name, text.as_bytes())?;
        }
        Ok(())
    }

    /// Lists both, with their texts: nothing else could bring them back.
    fn list(&self, store: &dyn Store) -> Result<(), FolderError> {
        let mut ledger = Ledger::read(store, "")?;
        let before = ledger.clone();
        for (name, text) in self.named() {
            let mut listed = Listed::of(text.as_bytes());
            listed.text = Some(text.into());
            listed.modified = ledger
                .get(name)
                .filter(|old| old.sha256 == listed.sha256)
                .and_then(|old| old.modified);
            ledger.insert(name, listed);
        }
        match ledger == before {
            true => Ok(()),
            false => Ok(ledger.write(store)?),
        }
    }
}

impl RunFolder {
    /// Begins the run of `asked` in `store`, or goes on with the one that is there, which has then what either has.
    ///
    /// # Errors
    /// The run there has other settings; the store cannot be used.
    pub fn claim(store: Arc<dyn Store>, asked: Plan) -> Result<Self, FolderError> {
        let listed = Ledger::read(&*store, "")?.get(CONFIG).is_some();
        if !listed && store.get(CONFIG)?.is_none() && store.get(GROWING)?.is_none() {
            // A run counts as begun once its settings are there.
            let texts = Texts::of(&asked)?;
            store.put(PROMPTS, texts.prompts.as_bytes())?;
            store.put_new(CONFIG, texts.config.as_bytes())?;
        }
        // Another process may have been faster, with other settings.
        let (there, settings) = read(&*store, true)?;
        let plan =
            growth::union(&there, &asked).map_err(|contradictions| FolderError::OtherSettings {
                location: store.location(),
                contradictions,
            })?;
        let texts = Texts::of(&plan)?;
        if plan != there {
            grow(&*store, &texts)?;
        } else {
            texts.list(&*store)?;
        }
        let names = |plan: &Plan| -> Vec<String> {
            let methods = plan.config.methods.iter();
            methods.map(|method| method.name.clone()).collect()
        };
        let known = names(&there);
        let mut methods = names(&plan);
        methods.retain(|name| !known.contains(name));
        let wanted = Wanted::Of {
            methods: names(&asked).into_iter().collect(),
            prompts: asked
                .prompts
                .iter()
                .map(|prompt| prompt.prompt_id.clone())
                .collect(),
            seeds: asked.config.seeds.iter().copied().collect(),
        };
        let news = News {
            methods,
            prompts: plan.prompts.len() - there.prompts.len(),
            seeds: plan.config.seeds.len() - there.config.seeds.len(),
            not_asked: plan.len() - asked.len(),
            settings,
        };
        Ok(Self::new(store, plan, wanted, news))
    }

    /// The run in `store`, as far as it is.
    ///
    /// # Errors
    /// There is none, or its settings are broken.
    pub fn open(store: Arc<dyn Store>) -> Result<Self, FolderError> {
        let (plan, settings) = read(&*store, false)?;
        let news = News {
            settings,
            ..News::default()
        };
        Ok(Self::new(store, plan, Wanted::All, news))
    }

    /// The run in `store`, so that what was there once is made again, and nothing else. Its settings and prompts are
    /// brought back where they are not as they were written.
    ///
    /// # Errors
    /// There is none, or its settings are broken.
    pub fn mend(store: Arc<dyn Store>) -> Result<Self, FolderError> {
        let (plan, settings) = read(&*store, true)?;
        Texts::of(&plan)?.list(&*store)?;
        let news = News {
            settings,
            ..News::default()
        };
        Ok(Self::new(store, plan, Wanted::Once, news))
    }

    /// The run as it is now, if another command has made it larger since it was taken up here.
    pub(super) fn grown(&self) -> Result<Option<Self>, FolderError> {
        let (plan, _) = read(&*self.store, false)?;
        let is_larger = plan.len() > self.plan.len();
        Ok(is_larger.then(|| Self::new(self.store.clone(), plan, Wanted::All, News::default())))
    }

    fn new(store: Arc<dyn Store>, plan: Plan, wanted: Wanted, news: News) -> Self {
        Self {
            store,
            plan,
            wanted,
            kept: Mutex::default(),
            lost: Mutex::default(),
            news,
        }
    }
}

/// Replaces a run's settings and prompts. It may be killed at any instant: [`read`] then finds the new ones.
fn grow(store: &dyn Store, texts: &Texts) -> Result<(), FolderError> {
    store.put(GROWING, serde_json::to_string(texts)?.as_bytes())?;
    let mut ledger = Ledger::read(store, "")?;
    if ledger.remove(CONFIG) | ledger.remove(PROMPTS) {
        ledger.write(store)?;
    }
    texts.put(store)?;
    texts.list(store)?;
    Ok(store.remove(GROWING)?)
}

/// The plan in a store, and which of its files are not as they were written. With `bring_back` they are afterwards.
fn read(store: &dyn Store, bring_back: bool) -> Result<(Plan, Vec<Damage>), FolderError> {
    let growing = store.get(GROWING)?;
    let growing = growing.and_then(|bytes| serde_json::from_slice::<Texts>(&bytes).ok());
    if let Some(texts) = growing
        && let Ok(plan) = Plan::read(&texts.config, &texts.prompts)
    {
        if bring_back {
            grow(store, &texts)?;
        }
        return Ok((plan, Vec::new()));
    }
    let ledger = Ledger::read(store, "")?;
    let mut damage = Vec::new();
    let mut text = |name: &str| {
        let bytes = store.get(name)?;
        let Some(listed) = ledger.get(name).filter(|listed| listed.text.is_some()) else {
            let bytes = bytes.ok_or_else(|| FolderError::NoRun {
                location: store.location(),
            })?;
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        };
        if bytes.as_ref().is_none_or(|bytes| !listed.is(bytes)) {
            let fault = match &bytes {
                None if is_folder(store, name) => Fault::Folder,
                None => Fault::Deleted,
                Some(bytes) => listed
                    .fault_of_size(bytes.len() as u64)
                    .unwrap_or(Fault::Changed),
            };
            damage.push(Damage {
                name: name.into(),
                fault,
            });
            if bring_back {
                let text = listed.text.as_deref().unwrap_or_default();
                store.put(name, text.as_bytes())?;
            }
        }
        Ok::<_, FolderError>(listed.text.clone().unwrap_or_default())
    };
    let plan = Plan::read(&text(CONFIG)?, &text(PROMPTS)?);
    let plan = plan.map_err(|source| FolderError::Plan {
        location: store.location(),
        source,
    })?;
    Ok((plan, damage))
}
