//! Text encoders: transformers' CLIP, and OpenCLIP as SDXL's single files store it.

use super::Target;
use crate::part::View;

/// A parameter of a `CLIPTextModel` or `CLIPTextModelWithProjection`, with or without the outer
/// `text_model.` (versions of transformers differ). `projected` says whether this encoder has a
/// projection; where it has none, some tools store one all the same.
pub(crate) fn clip(key: &str, projected: bool) -> Target {
    let inner = key.strip_prefix("text_model.").unwrap_or(key);
    if inner == "embeddings.position_ids" || key == "logit_scale" {
        return Target::Ignored;
    }
    if ["embeddings.", "encoder.", "final_layer_norm."]
        .iter()
        .any(|prefix| inner.starts_with(prefix))
    {
        return Target::whole(format!("text_model.{inner}"));
    }
    match key {
        "text_projection.weight" if projected => Target::whole(key),
        // A bare matrix is OpenAI's, stored input first.
        "text_projection" if projected => {
            Target::Parameters(vec![("text_projection.weight".into(), View::Transposed)])
        }
        "text_projection.weight" | "text_projection" => Target::Ignored,
        _ => Target::Unknown,
    }
}

/// A parameter of OpenCLIP's text transformer.
pub(crate) fn open_clip(key: &str) -> Target {
    match key {
        "logit_scale" | "attn_mask" => return Target::Ignored,
        // A buffer of transformers' that conversions leave behind.
        buffer if buffer.ends_with("embeddings.position_ids") => return Target::Ignored,
        "positional_embedding" => {
            return Target::whole("text_model.embeddings.position_embedding.weight");
        }
        "token_embedding.weight" => {
            return Target::whole("text_model.embeddings.token_embedding.weight");
        }
        "text_projection" => {
            return Target::Parameters(vec![("text_projection.weight".into(), View::Transposed)]);
        }
        "text_projection.weight" => return Target::whole(key),
        _ => {}
    }
    if let Some(rest) = key.strip_prefix("ln_final.") {
        return Target::whole(format!("text_model.final_layer_norm.{rest}"));
    }
    open_clip_layer(key).unwrap_or(Target::Unknown)
}

/// A parameter of OpenCLIP's text transformer where the state before its last layer is used, as SD 2.x does: a network of
/// `layers` layers, of which the file has one more.
pub(crate) fn open_clip_penultimate(key: &str, layers: u64) -> Target {
    let last = format!("transformer.resblocks.{layers}.");
    match key {
        "text_projection" | "text_projection.weight" => Target::Ignored,
        key if key.starts_with(&last) => Target::Ignored,
        key => open_clip(key),
    }
}

fn open_clip_layer(key: &str) -> Option<Target> {
    let (layer, rest) = key
        .strip_prefix("transformer.resblocks.")?
        .split_once('.')?;
    layer.parse::<usize>().ok()?;
    let layer = format!("text_model.encoder.layers.{layer}");
    if let Some(kind) = rest.strip_prefix("attn.in_proj_") {
        let parts = ["q_proj", "k_proj", "v_proj"].iter().enumerate();
        return Some(Target::Parameters(
            parts
                .map(|(index, part)| {
                    (
                        format!("{layer}.self_attn.{part}.{kind}"),
                        View::Rows { index, of: 3 },
                    )
                })
                .collect(),
        ));
    }
    const PARTS: &[(&str, &str)] = &[
        ("ln_1.", "layer_norm1."),
        ("ln_2.", "layer_norm2."),
        ("mlp.c_fc.", "mlp.fc1."),
        ("mlp.c_proj.", "mlp.fc2."),
        ("attn.out_proj.", "self_attn.out_proj."),
    ];
    PARTS.iter().find_map(|(old, name)| {
        let rest = rest.strip_prefix(old)?;
        Some(Target::whole(format!("{layer}.{name}{rest}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_and_without_the_outer_name() {
        let whole = Target::whole("text_model.encoder.layers.3.mlp.fc1.bias");
        assert_eq!(
            clip("text_model.encoder.layers.3.mlp.fc1.bias", false),
            whole
        );
        assert_eq!(clip("encoder.layers.3.mlp.fc1.bias", false), whole);
        assert_eq!(
            clip("text_model.embeddings.position_ids", false),
            Target::Ignored
        );
        assert_eq!(clip("text_projection.weight", false), Target::Ignored);
        assert_eq!(
            clip("text_projection.weight", true),
            Target::whole("text_projection.weight")
        );
        assert_eq!(clip("visual_projection.weight", true), Target::Unknown);
    }

    #[test]
    fn open_clip_is_split() {
        assert_eq!(
            open_clip("transformer.resblocks.31.attn.in_proj_bias"),
            Target::Parameters(vec![
                (
                    "text_model.encoder.layers.31.self_attn.q_proj.bias".into(),
                    View::Rows { index: 0, of: 3 }
                ),
                (
                    "text_model.encoder.layers.31.self_attn.k_proj.bias".into(),
                    View::Rows { index: 1, of: 3 }
                ),
                (
                    "text_model.encoder.layers.31.self_attn.v_proj.bias".into(),
                    View::Rows { index: 2, of: 3 }
                ),
            ])
        );
        assert_eq!(
            open_clip("transformer.resblocks.0.mlp.c_proj.weight"),
            Target::whole("text_model.encoder.layers.0.mlp.fc2.weight")
        );
        assert_eq!(open_clip("visual.conv1.weight"), Target::Unknown);
    }

    #[test]
    fn a_buffer_that_is_left_behind_is_ignored() {
        for key in [
            "transformer.text_model.embeddings.position_ids",
            "text_model.embeddings.position_ids",
        ] {
            assert_eq!(open_clip(key), Target::Ignored, "{key}");
            assert_eq!(open_clip_penultimate(key, 23), Target::Ignored, "{key}");
        }
    }
}
