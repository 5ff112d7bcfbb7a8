//! The names in LoRA files: kohya's `lora_unet_down_blocks_0_….lora_down.weight`, diffusers'
//! `unet.down_blocks.0.….lora_A.weight`, and their older spellings.

/// What peft's own files call the network that a LoRA is for. Here it is the UNet.
pub(super) const PEFT: &str = "base_model.model.";

/// What a tensor is to its module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Down,
    Up,
    Alpha,
}

/// Which network a module is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Network {
    Unet,
    /// The text encoder of this index.
    Text(usize),
}

/// Splits a tensor's name into its module's name and its role there.
pub(crate) fn split(key: &str) -> Option<(String, Role)> {
    const ENDINGS: &[(&str, Role)] = &[
        (".lora_down.weight", Role::Down),
        (".lora_up.weight", Role::Up),
        (".lora_A.weight", Role::Down),
        (".lora_B.weight", Role::Up),
        (".lora_A.default.weight", Role::Down),
        (".lora_B.default.weight", Role::Up),
        (".lora_A.default_0.weight", Role::Down),
        (".lora_B.default_0.weight", Role::Up),
        (".lora.down.weight", Role::Down),
        (".lora.up.weight", Role::Up),
        (".lora_linear_layer.down.weight", Role::Down),
        (".lora_linear_layer.up.weight", Role::Up),
        ("_lora.down.weight", Role::Down),
        ("_lora.up.weight", Role::Up),
        (".alpha", Role::Alpha),
    ];
    let (module, role) = ENDINGS
        .iter()
        .find_map(|(ending, role)| Some((key.strip_suffix(ending)?, *role)))?;
    Some((module.to_string(), role))
}

/// The relative of LoRA that the tensor `key` belongs to.
pub(super) fn relative(key: &str) -> Option<&'static str> {
    const RELATIVES: &[(&str, &str)] = &[
        ("dora_scale", "DoRA"),
        ("lora_magnitude_vector", "DoRA"),
        ("hada_", "LoHa"),
        ("lokr_", "LoKr"),
        ("oft_", "OFT"),
        ("lora_mid", "LoCon in Tucker decomposition"),
        ("w_norm", "full change of norms (LyCORIS)"),
        (".diff", "full change of weights (LyCORIS)"),
    ];
    RELATIVES
        .iter()
        .find(|(part, _)| key.contains(part))
        .map(|(_, name)| *name)
}

/// The network that a module's name names, the rest of the name, and whether it is kohya's, with
/// underscores for dots.
pub(super) fn network(module: &str) -> Option<(Network, &str, bool)> {
    const PREFIXES: &[(&str, Network, bool)] = &[
        ("lora_unet_", Network::Unet, true),
        ("lora_te1_", Network::Text(0), true),
        ("lora_te2_", Network::Text(1), true),
        ("lora_te_", Network::Text(0), true),
        ("unet.", Network::Unet, false),
        ("text_encoder_2.", Network::Text(1), false),
        ("text_encoder.", Network::Text(0), false),
        (PEFT, Network::Unet, false),
    ];
    let prefixed = PREFIXES.iter().find_map(|(prefix, network, kohya)| {
        Some((*network, module.strip_prefix(prefix)?, *kohya))
    });
    // diffusers' first LoRA files were of the UNet's attention processors, and did not say so.
    prefixed.or_else(|| {
        module
            .contains(".processor.")
            .then_some((Network::Unet, module, false))
    })
}

/// Whether a module's name is one for the UNet's blocks in the original code, Stability's and CompVis'.
pub(super) fn in_original_blocks(module: &str) -> bool {
    ["input_blocks", "middle_block", "output_blocks"]
        .iter()
        .any(|blocks| module.contains(blocks))
}

/// Whether a module's name is one for the UNet's blocks in diffusers.
pub(super) fn in_diffusers_blocks(module: &str) -> bool {
    ["down_blocks", "mid_block", "up_blocks"]
        .iter()
        .any(|blocks| module.contains(blocks))
}

/// The diffusers name of a module, from diffusers' own old and new spellings.
pub(super) fn diffusers(network: Network, module: &str) -> String {
    let name = module.replace(".processor.", ".");
    match network {
        // Old attention processors called the output projection, a list of one, by the list's name.
        Network::Unet if name.ends_with(".to_out") => format!("{name}.0"),
        Network::Unet => name,
        Network::Text(_) => text(&name),
    }
}

/// As [`diffusers`], for a module of a text encoder.
fn text(module: &str) -> String {
    // diffusers' first LoRA files called its projections as the UNet's (`DIFFUSERS_OLD_TO_PEFT`).
    const PROJECTIONS: [(&str, &str); 4] = [
        (".to_q", ".q_proj"),
        (".to_k", ".k_proj"),
        (".to_v", ".v_proj"),
        (".to_out", ".out_proj"),
    ];
    let renamed = PROJECTIONS
        .iter()
        .find_map(|(old, new)| Some(format!("{}{new}", module.strip_suffix(old)?)));
    let name = renamed.unwrap_or_else(|| module.to_owned());
    match name.starts_with("text_model.") || name == "text_projection" {
        true => name,
        false => format!("text_model.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_one_module() {
        let module = "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_out.0";
        for key in [
            "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_out.0.lora_A.weight",
            "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_out.0.lora.down.weight",
            "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.processor.to_out_lora.down.weight",
            "down_blocks.0.attentions.0.transformer_blocks.0.attn1.processor.to_out_lora.down.weight",
            "base_model.model.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_out.0.lora_A.weight",
        ] {
            let (name, role) = split(key).unwrap();
            let (network, rest, kohya) = network(&name).unwrap();
            assert_eq!((role, network, kohya), (Role::Down, Network::Unet, false));
            assert_eq!(diffusers(network, rest), module, "{key}");
        }
        let (name, _) = split("text_encoder_2.encoder.layers.1.mlp.fc1.lora_B.weight").unwrap();
        let (network, rest, _) = network(&name).unwrap();
        assert_eq!(network, Network::Text(1));
        assert_eq!(
            diffusers(network, rest),
            "text_model.encoder.layers.1.mlp.fc1"
        );
    }

    /// The names of diffusers' `DIFFUSERS_OLD_TO_PEFT`.
    #[test]
    fn text_projections_of_the_first_files() {
        for (old, new) in [
            ("to_q", "q_proj"),
            ("to_k", "k_proj"),
            ("to_v", "v_proj"),
            ("to_out", "out_proj"),
        ] {
            let attention = "text_model.encoder.layers.0.self_attn";
            let key = format!("text_encoder.{attention}.{old}_lora.up.weight");
            let (name, role) = split(&key).unwrap();
            let (network, rest, kohya) = network(&name).unwrap();
            assert_eq!((role, network, kohya), (Role::Up, Network::Text(0), false));
            assert_eq!(diffusers(network, rest), format!("{attention}.{new}"));
        }
    }

    #[test]
    fn blocks_are_told_apart() {
        for (original, diffusers) in [
            (
                "lora_unet_input_blocks_4_1_proj_in",
                "lora_unet_down_blocks_1_attentions_0_proj_in",
            ),
            (
                "lora_unet_middle_block_1_proj_in",
                "lora_unet_mid_block_attentions_0_proj_in",
            ),
            (
                "lora_unet_output_blocks_0_1_proj_in",
                "lora_unet_up_blocks_0_attentions_0_proj_in",
            ),
        ] {
            assert!(in_original_blocks(original) && !in_diffusers_blocks(original));
            assert!(in_diffusers_blocks(diffusers) && !in_original_blocks(diffusers));
        }
    }

    #[test]
    fn relatives_are_told_apart() {
        assert_eq!(relative("lora_unet_x.hada_w1_a"), Some("LoHa"));
        assert_eq!(relative("lora_unet_x.lokr_w1"), Some("LoKr"));
        assert_eq!(relative("lora_unet_x.dora_scale"), Some("DoRA"));
        assert_eq!(relative("lora_unet_x.lora_up.bias"), None);
        assert!(split("lora_unet_x.lora_mid.weight").is_none());
    }
}
