//! `--attention-maps`: what to show, and where it goes.

use std::path::PathBuf;

use anyhow::bail;
use prepose::attention_maps::{AttentionMaps, MapSelection};
use prepose::engine::Blueprint;
use prepose::output::attention::ObjectMaps;
use prepose::output::files::prepare_folder;
use prepose::picture::Picture;
use prepose::request::Request;

use super::plan::MapArgs;

/// What `--attention-maps` asks for.
pub struct MapFiles {
    folder: PathBuf,
    selection: MapSelection,
    words: Vec<String>,
}

impl MapFiles {
    /// Checks what can be checked before anything is made, and makes the folder.
    pub fn plan(
        args: &MapArgs,
        blueprint: &Blueprint,
        requests: &[Request],
    ) -> anyhow::Result<Option<Self>> {
        let Some(folder) = &args.attention_maps else {
            return Ok(None);
        };
        let files = Self {
            folder: folder.clone(),
            selection: args.selection(),
            words: args.attention_words.clone(),
        };
        let factor = blueprint.vae_factor();
        let unet = blueprint.checkpoint().unet_config()?;
        for request in requests {
            files.objects(blueprint, request)?;
            let latents = [request.height / factor, request.width / factor];
            files.selection.layers.resolve(&unet, latents)?;
        }
        prepare_folder(folder)?;
        Ok(Some(files))
    }

    /// The hook that reads them.
    pub fn hook(&self) -> AttentionMaps {
        AttentionMaps::new(self.selection.clone())
    }

    /// What is shown for `request`: the words that were asked for, or the prompt's objects.
    fn objects(
        &self,
        blueprint: &Blueprint,
        request: &Request,
    ) -> anyhow::Result<Vec<(String, Vec<usize>)>> {
        if self.words.is_empty() {
            return Ok(blueprint.objects(request)?);
        }
        let words = self.words.iter().map(|word| {
            let word = word.trim();
            Ok((word.to_string(), blueprint.positions(request, word)?))
        });
        words.collect()
    }

    /// Writes the maps of a batch; `stems` name its pictures.
    pub fn write(
        &self,
        hook: AttentionMaps,
        blueprint: &Blueprint,
        requests: &[Request],
        stems: &[String],
        pictures: &[Picture],
    ) -> anyhow::Result<()> {
        let objects = requests
            .iter()
            .map(|request| self.objects(blueprint, request))
            .collect::<Result<Vec<_>, _>>()?;
        let read = ObjectMaps::read(&hook.into_steps(), &objects);
        if read.is_empty() {
            bail!(
                "no attention maps were read: none of the layers has the heads that --attention-heads asks for"
            );
        }
        let several = read.len() > 1;
        for of_size in read {
            for ((maps, stem), picture) in of_size.iter().zip(stems).zip(pictures) {
                let stem = match maps.maps.first().and_then(|step| step.first()) {
                    Some(map) if several => format!("{stem}-{}x{}", map.width, map.height),
                    _ => stem.clone(),
                };
                maps.write(&self.folder, &stem, picture)?;
            }
        }
        Ok(())
    }
}
