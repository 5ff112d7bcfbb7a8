//! From the names in a file to those of the networks, which are transformers'.

use prepose_formats::TensorFile;

use super::EyeKind;
use crate::keys::{Target, open_clip};
use crate::part::View;

/// Who named the tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// transformers.
    Transformers,
    /// The network's authors, or OpenCLIP.
    Original,
}

/// Which network the tensors are of, and who named them.
pub(crate) fn recognised(file: &TensorFile) -> Option<(EyeKind, Layout)> {
    use EyeKind::{Clip, ClipVision, DepthAnything, Dinov2, ImageReward, Inception, Sam};
    use Layout::{Original, Transformers};
    let has = |prefix: &str| file.count(prefix) > 0;
    let tables: [(&[&str], EyeKind, Layout); 11] = [
        (
            &["vision_encoder.neck.", "mask_decoder."],
            Sam,
            Transformers,
        ),
        (&["image_encoder.neck.", "mask_decoder."], Sam, Original),
        (
            &["neck.reassemble_stage.", "backbone."],
            DepthAnything,
            Transformers,
        ),
        (
            &["depth_head.scratch.", "pretrained."],
            DepthAnything,
            Original,
        ),
        (
            &[
                "encoder.layer.0.layer_scale1.",
                "embeddings.patch_embeddings.",
            ],
            Dinov2,
            Transformers,
        ),
        (&["blocks.0.ls1.", "patch_embed."], Dinov2, Original),
        (
            &["vision_model.embeddings.", "text_model."],
            Clip,
            Transformers,
        ),
        (
            &["visual.transformer.resblocks.", "transformer.resblocks."],
            Clip,
            Original,
        ),
        (&["vision_model.embeddings."], ClipVision, Transformers),
        (&["Conv2d_1a_3x3.", "Mixed_7c."], Inception, Original),
        (
            &["blip.visual_encoder.", "blip.text_encoder.", "mlp.layers."],
            ImageReward,
            Original,
        ),
    ];
    let found = tables
        .into_iter()
        .find(|(prefixes, ..)| prefixes.iter().all(|p| has(p)));
    found.map(|(_, kind, layout)| (kind, layout))
}

/// Which network the tensors are of.
pub(crate) fn kind(file: &TensorFile) -> Option<EyeKind> {
    recognised(file).map(|(kind, _)| kind)
}

/// Where the tensor `key` goes.
pub(super) fn target(kind: EyeKind, layout: Layout, key: &str) -> Target {
    let target = match (kind, layout) {
        (_, Layout::Transformers) => whole(key),
        (EyeKind::Sam, _) => sam(key),
        (EyeKind::DepthAnything, _) => depth(key),
        (EyeKind::Dinov2, _) => dinov2(key),
        (EyeKind::Clip | EyeKind::ClipVision, _) => clip(key),
        (EyeKind::Inception, _) => whole(key),
        (EyeKind::ImageReward, _) => image_reward(key),
    };
    let unused = |(name, _): &(String, View)| is_unused(name);
    match target {
        Target::Parameters(names) if names.iter().any(unused) => Target::Ignored,
        target => target,
    }
}

/// What published files have and no network here needs: buffers, what only training uses, what only given masks need, an
/// unused part of Depth Anything's coarsest level, the bias of Inception's classes, and BLIP's projections for its own tasks.
fn is_unused(name: &str) -> bool {
    const BEGINNINGS: [&str; 8] = [
        "fc.bias",
        "blip.vision_proj.",
        "blip.text_proj.",
        "prompt_encoder.mask_embed.",
        "prompt_encoder.shared_embedding.",
        "embeddings.mask_token",
        "backbone.embeddings.mask_token",
        "neck.fusion_stage.layers.0.residual_layer1.",
    ];
    const ENDS: [&str; 2] = [".position_ids", ".num_batches_tracked"];
    ENDS.iter().any(|end| name.ends_with(end))
        || BEGINNINGS.iter().any(|start| name.starts_with(start))
}

fn whole(name: impl Into<String>) -> Target {
    Target::Parameters(vec![(name.into(), View::Whole)])
}

/// A fused tensor as query, key and value.
fn split(names: [String; 3]) -> Target {
    let parts = names.into_iter().enumerate();
    Target::Parameters(
        parts
            .map(|(index, name)| (name, View::Rows { index, of: 3 }))
            .collect(),
    )
}

/// `name` with the first of the beginnings that it has exchanged; none if it has none of them.
fn exchanged(name: &str, table: &[(&str, &str)]) -> Option<String> {
    table.iter().find_map(|(old, new)| {
        let rest = name.strip_prefix(old)?;
        Some(format!("{new}{rest}"))
    })
}

/// The authors' names of DINOv2.
fn dinov2(key: &str) -> Target {
    const OUTSIDE: [(&str, &str); 5] = [
        ("cls_token", "embeddings.cls_token"),
        ("mask_token", "embeddings.mask_token"),
        ("pos_embed", "embeddings.position_embeddings"),
        (
            "patch_embed.proj.",
            "embeddings.patch_embeddings.projection.",
        ),
        ("norm.", "layernorm."),
    ];
    const INSIDE: [(&str, &str); 6] = [
        ("norm1.", "norm1."),
        ("norm2.", "norm2."),
        ("attn.proj.", "attention.output.dense."),
        ("ls1.gamma", "layer_scale1.lambda1"),
        ("ls2.gamma", "layer_scale2.lambda1"),
        ("mlp.", "mlp."),
    ];
    let Some((block, rest)) = key
        .strip_prefix("blocks.")
        .and_then(|key| key.split_once('.'))
    else {
        return exchanged(key, &OUTSIDE).map_or(Target::Unknown, whole);
    };
    let block = format!("encoder.layer.{block}");
    if let Some(what) = rest.strip_prefix("attn.qkv.") {
        return split(
            ["query", "key", "value"]
                .map(|part| format!("{block}.attention.attention.{part}.{what}")),
        );
    }
    match exchanged(rest, &INSIDE) {
        Some(rest) => whole(format!("{block}.{rest}")),
        None => Target::Unknown,
    }
}

/// The authors' names of Depth Anything.
fn depth(key: &str) -> Target {
    if let Some(key) = key.strip_prefix("pretrained.") {
        return match dinov2(key) {
            Target::Parameters(names) => {
                let inside = names.into_iter();
                Target::Parameters(
                    inside
                        .map(|(name, view)| (format!("backbone.{name}"), view))
                        .collect(),
                )
            }
            other => other,
        };
    }
    const HEAD: [(&str, &str); 3] = [
        ("output_conv1.", "head.conv1."),
        ("output_conv2.0.", "head.conv2."),
        ("output_conv2.2.", "head.conv3."),
    ];
    const FUSION: [(&str, &str); 5] = [
        ("out_conv.", "projection."),
        ("resConfUnit1.conv1.", "residual_layer1.convolution1."),
        ("resConfUnit1.conv2.", "residual_layer1.convolution2."),
        ("resConfUnit2.conv1.", "residual_layer2.convolution1."),
        ("resConfUnit2.conv2.", "residual_layer2.convolution2."),
    ];
    let named = || {
        let rest = key.strip_prefix("depth_head.")?;
        for (old, new) in [("projects.", "projection"), ("resize_layers.", "resize")] {
            if let Some((level, what)) =
                rest.strip_prefix(old).and_then(|rest| rest.split_once('.'))
            {
                return Some(format!("neck.reassemble_stage.layers.{level}.{new}.{what}"));
            }
        }
        let rest = rest.strip_prefix("scratch.")?;
        if let Some(name) = exchanged(rest, &HEAD) {
            return Some(name);
        }
        let (first, what) = rest.split_once('.')?;
        let number = |text: &str| text.parse::<usize>().ok().filter(|n| (1..=4).contains(n));
        if let Some(level) = first
            .strip_prefix("layer")
            .and_then(|n| n.strip_suffix("_rn"))
        {
            return Some(format!("neck.convs.{}.{what}", number(level)? - 1));
        }
        // Theirs count from the finest level, transformers' from the coarsest.
        let level = 4 - number(first.strip_prefix("refinenet")?)?;
        let what = exchanged(what, &FUSION)?;
        Some(format!("neck.fusion_stage.layers.{level}.{what}"))
    };
    named().map_or(Target::Unknown, whole)
}

/// The authors' names of SAM.
fn sam(key: &str) -> Target {
    const OUTSIDE: [(&str, &str); 17] = [
        (
            "image_encoder.patch_embed.proj.",
            "vision_encoder.patch_embed.projection.",
        ),
        ("image_encoder.pos_embed", "vision_encoder.pos_embed"),
        ("image_encoder.neck.0.", "vision_encoder.neck.conv1."),
        ("image_encoder.neck.1.", "vision_encoder.neck.layer_norm1."),
        ("image_encoder.neck.2.", "vision_encoder.neck.conv2."),
        ("image_encoder.neck.3.", "vision_encoder.neck.layer_norm2."),
        (
            "prompt_encoder.pe_layer.positional_encoding_gaussian_matrix",
            "shared_image_embedding.positional_embedding",
        ),
        (
            "prompt_encoder.point_embeddings.",
            "prompt_encoder.point_embed.",
        ),
        (
            "prompt_encoder.mask_downscaling.",
            "prompt_encoder.mask_embed.",
        ),
        ("prompt_encoder.no", "prompt_encoder.no"),
        (
            "mask_decoder.output_upscaling.0.",
            "mask_decoder.upscale_conv1.",
        ),
        (
            "mask_decoder.output_upscaling.1.",
            "mask_decoder.upscale_layer_norm.",
        ),
        (
            "mask_decoder.output_upscaling.3.",
            "mask_decoder.upscale_conv2.",
        ),
        (
            "mask_decoder.transformer.norm_final_attn.",
            "mask_decoder.transformer.layer_norm_final_attn.",
        ),
        ("mask_decoder.transformer.", "mask_decoder.transformer."),
        ("mask_decoder.iou_token.", "mask_decoder.iou_token."),
        ("mask_decoder.mask_tokens.", "mask_decoder.mask_tokens."),
    ];
    if let Some(rest) = key.strip_prefix("image_encoder.blocks.") {
        return whole(format!("vision_encoder.layers.{}", long_norms(rest)));
    }
    for head in [
        "mask_decoder.output_hypernetworks_mlps.",
        "mask_decoder.iou_prediction_head.",
    ] {
        if let Some(rest) = key.strip_prefix(head) {
            return head_layer(rest).map_or(Target::Unknown, |rest| whole(format!("{head}{rest}")));
        }
    }
    exchanged(key, &OUTSIDE).map_or(Target::Unknown, |name| whole(long_norms(&name)))
}

/// `norm1` is `layer_norm1`.
fn long_norms(name: &str) -> String {
    let words = name.split('.').map(|word| match word.strip_prefix("norm") {
        Some(number) if number.parse::<usize>().is_ok() => format!("layer_norm{number}"),
        _ => word.to_string(),
    });
    words.collect::<Vec<_>>().join(".")
}

/// The three layers of a head, which are numbered through, by transformers' names.
fn head_layer(rest: &str) -> Option<String> {
    let (before, after) = rest.split_once("layers.")?;
    let (number, what) = after.split_once('.')?;
    let layer = match number {
        "0" => "proj_in",
        "1" => "layers.0",
        "2" => "proj_out",
        _ => return None,
    };
    Some(format!("{before}{layer}.{what}"))
}

/// The authors' names of ImageReward.
fn image_reward(key: &str) -> Target {
    match key.split_once("attn.qkv.") {
        Some((block, what)) => {
            split(["q", "k", "v"].map(|part| format!("{block}attn.{part}.{what}")))
        }
        None => whole(key),
    }
}

/// OpenCLIP's names of both encoders.
fn clip(key: &str) -> Target {
    const OUTSIDE: [(&str, &str); 5] = [
        ("class_embedding", "embeddings.class_embedding"),
        (
            "positional_embedding",
            "embeddings.position_embedding.weight",
        ),
        ("conv1.", "embeddings.patch_embedding."),
        ("ln_pre.", "pre_layrnorm."),
        ("ln_post.", "post_layernorm."),
    ];
    if key == "logit_scale" {
        return whole(key);
    }
    let Some(rest) = key.strip_prefix("visual.") else {
        return open_clip(key);
    };
    if rest == "proj" {
        let name = "visual_projection.weight".to_string();
        return Target::Parameters(vec![(name, View::Transposed)]);
    }
    if let Some(name) = exchanged(rest, &OUTSIDE) {
        return whole(format!("vision_model.{name}"));
    }
    // Its blocks are those of the text encoder.
    match open_clip(rest) {
        Target::Parameters(names) => {
            let vision = names
                .into_iter()
                .map(|(name, view)| (name.replacen("text_model.", "vision_model.", 1), view));
            Target::Parameters(vision.collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(kind: EyeKind, key: &str) -> String {
        match target(kind, Layout::Original, key) {
            Target::Parameters(names) => names
                .into_iter()
                .map(|(name, _)| name)
                .collect::<Vec<_>>()
                .join(" "),
            Target::Ignored => "ignored".into(),
            Target::Unknown => "unknown".into(),
        }
    }

    #[test]
    fn authors_names() {
        for (kind, key, expected) in [
            (
                EyeKind::Sam,
                "image_encoder.blocks.3.norm1.weight",
                "vision_encoder.layers.3.layer_norm1.weight",
            ),
            (
                EyeKind::Sam,
                "mask_decoder.transformer.layers.1.norm4.bias",
                "mask_decoder.transformer.layers.1.layer_norm4.bias",
            ),
            (
                EyeKind::Sam,
                "mask_decoder.output_hypernetworks_mlps.2.layers.2.bias",
                "mask_decoder.output_hypernetworks_mlps.2.proj_out.bias",
            ),
            (
                EyeKind::Sam,
                "prompt_encoder.mask_downscaling.4.weight",
                "ignored",
            ),
            (EyeKind::Sam, "prompt_encoder.x", "unknown"),
            (
                EyeKind::DepthAnything,
                "depth_head.scratch.refinenet1.resConfUnit2.conv1.bias",
                "neck.fusion_stage.layers.3.residual_layer2.convolution1.bias",
            ),
            (
                EyeKind::DepthAnything,
                "depth_head.scratch.refinenet4.resConfUnit1.conv1.bias",
                "ignored",
            ),
            (
                EyeKind::DepthAnything,
                "depth_head.scratch.refinenet5.out_conv.bias",
                "unknown",
            ),
            (
                EyeKind::DepthAnything,
                "depth_head.scratch.layer0_rn.weight",
                "unknown",
            ),
            (
                EyeKind::DepthAnything,
                "pretrained.blocks.7.ls2.gamma",
                "backbone.encoder.layer.7.layer_scale2.lambda1",
            ),
            (
                EyeKind::ImageReward,
                "blip.visual_encoder.blocks.3.attn.qkv.bias",
                "blip.visual_encoder.blocks.3.attn.q.bias blip.visual_encoder.blocks.3.attn.k.bias \
                 blip.visual_encoder.blocks.3.attn.v.bias",
            ),
            (EyeKind::ImageReward, "blip.text_proj.weight", "ignored"),
            (
                EyeKind::ImageReward,
                "blip.text_encoder.embeddings.position_ids",
                "ignored",
            ),
            (EyeKind::Dinov2, "mask_token", "ignored"),
            (EyeKind::Dinov2, "register_tokens", "unknown"),
            (
                EyeKind::Clip,
                "visual.transformer.resblocks.5.mlp.c_fc.weight",
                "vision_model.encoder.layers.5.mlp.fc1.weight",
            ),
            (
                EyeKind::Clip,
                "ln_final.bias",
                "text_model.final_layer_norm.bias",
            ),
            (EyeKind::Clip, "attn_mask", "ignored"),
        ] {
            assert_eq!(name(kind, key), expected, "{key}");
        }
    }
}
