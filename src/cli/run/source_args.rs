//! The options that say where pictures come from.

use std::path::PathBuf;

use prepose::sources::folder::Layout;
use prepose::suite::plan::Interface;
use serde_json::Value;

/// Where the pictures come from, if they are not made here.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Pictures from elsewhere (docs/sources.md)")]
pub struct SourceArgs {
    /// A folder with the pictures: PNG, JPEG or WebP of any size.
    #[arg(long, value_name = "FOLDER", group = "source")]
    pub pictures: Option<PathBuf>,
    /// How its files are named: manifest (SpatialBench-UC's manifest.jsonl), geneval, t2i-compbench, visor or spatialgeneval.
    #[arg(long, value_name = "NAME", requires = "pictures", conflicts_with = "name_template", value_parser = parse_layout)]
    pub layout: Option<Layout>,
    /// How its files are named, such as {prompt_id}/{index}.png.
    ///
    /// {prompt_id}, {number} (the digits at its end) or {prompt} stands for the prompt, {seed} or {index} (from 0, in the
    /// order of the run's seeds) for which of its pictures it is.
    #[arg(long, value_name = "TEMPLATE", requires = "pictures", value_parser = parse_template)]
    pub name_template: Option<Layout>,
    /// Begin although pictures are missing; give the same command again when there are more.
    #[arg(long, requires = "pictures")]
    pub partial: bool,

    /// A server that makes the pictures, such as http://localhost:8188 or https://api.openai.com/v1.
    #[arg(long, value_name = "URL", group = "source")]
    pub endpoint: Option<String>,
    /// The model's name on that server.
    #[arg(long, value_name = "NAME", requires = "endpoint")]
    pub endpoint_model: Option<String>,
    /// The server's interface: openai (images/generations), comfyui, or webui (AUTOMATIC1111, Forge, SD.Next)
    /// [default: comfyui with --workflow, else openai].
    #[arg(long, value_name = "KIND", requires = "endpoint", value_parser = parse_interface)]
    pub endpoint_kind: Option<Interface>,
    /// ComfyUI: the graph, exported in its API format, with {prompt} in the node for the prompt.
    #[arg(long, value_name = "FILE.json", requires = "endpoint")]
    pub workflow: Option<PathBuf>,
    /// The environment variable that holds the server's key.
    #[arg(long, value_name = "VARIABLE", requires = "endpoint")]
    pub endpoint_key_env: Option<String>,
    /// The header that carries the key as it is, such as Azure's api-key [default: Authorization, after Bearer].
    #[arg(
        long,
        value_name = "HEADER",
        requires = "endpoint_key_env",
        hide_short_help = true
    )]
    pub endpoint_key_header: Option<String>,
    /// Another field to send, such as quality=low or seed={seed}; may be repeated.
    #[arg(long, value_name = "FIELD=VALUE", requires = "endpoint", value_parser = parse_field)]
    pub endpoint_set: Vec<(String, Value)>,
    /// Pictures to request at a time.
    #[arg(long, value_name = "N", requires = "endpoint", default_value_t = 4)]
    pub parallel: usize,

    /// A program that makes the pictures: it reads a line of JSON for each job and writes one for each picture (docs/sources.md).
    #[arg(long, value_name = "COMMAND", group = "source")]
    pub maker: Option<String>,

    /// How long a server or program may take over a picture, in seconds [default: 600, or 1800 for a program].
    #[arg(long, value_name = "SECONDS", hide_short_help = true)]
    pub patience: Option<u64>,
    /// Whether the pictures will be changed by the same source: known before the first is made.
    #[arg(skip)]
    pub edits_follow: bool,
    /// The name of what makes the pictures, for the run's records [default: the model's, program's or folder's name].
    #[arg(long, value_name = "NAME", requires = "source")]
    pub source_name: Option<String>,
}

fn parse_layout(text: &str) -> Result<Layout, String> {
    match text.parse() {
        Ok(Layout::Template(_)) | Err(_) => {
            let names = prepose::sources::folder::LAYOUTS.map(|(name, ..)| name);
            Err(format!(
                "there are {}; --name-template takes names of your own",
                names.join(", ")
            ))
        }
        Ok(layout) => Ok(layout),
    }
}

fn parse_template(text: &str) -> Result<Layout, String> {
    let template = prepose::sources::folder::Template::parse(text);
    template
        .map(Layout::Template)
        .map_err(|error| error.to_string())
}

fn parse_interface(text: &str) -> Result<Interface, String> {
    match text {
        "openai" => Ok(Interface::OpenAi),
        "comfyui" => Ok(Interface::ComfyUi),
        "webui" => Ok(Interface::WebUi),
        _ => Err("there are openai, comfyui and webui".into()),
    }
}

/// `name=value`, where the value is JSON if it can be, and otherwise text.
fn parse_field(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write it as FIELD=VALUE")?;
    if name.is_empty() {
        return Err("write it as FIELD=VALUE".into());
    }
    let json = serde_json::from_str(value);
    Ok((
        name.into(),
        json.unwrap_or_else(|_| Value::String(value.into())),
    ))
}

impl SourceArgs {
    /// Whether pictures come from elsewhere.
    pub fn is_given(&self) -> bool {
        self.pictures.is_some() || self.endpoint.is_some() || self.maker.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_json_or_text() {
        assert_eq!(parse_field("seed={seed}").unwrap().1, "{seed}");
        assert_eq!(parse_field("n=1.5").unwrap().1, 1.5);
        assert!(parse_field("n").is_err() && parse_field("=1").is_err());
    }
}
