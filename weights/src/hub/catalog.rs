//! Checkpoints that have a short name.

/// A file of a known checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownFile {
    /// Its path in the repository.
    pub path: &'static str,
    /// Its SHA-256, for files stored by content (all large ones).
    pub sha256: Option<&'static str>,
}

/// A checkpoint or autoencoder that can be pulled by a short name, at a fixed revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The short name.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Owner and name on the hub.
    pub repo: &'static str,
    /// The commit.
    pub revision: &'static str,
    /// What to download; the first is what is opened.
    pub files: &'static [KnownFile],
    /// Bytes to download, about.
    pub size: u64,
}

/// Everything that can be pulled by a short name.
pub const CATALOG: &[Known] = &[
    Known {
        name: "sd15",
        about: "Stable Diffusion 1.5 (CreativeML Open RAIL-M)",
        repo: "stable-diffusion-v1-5/stable-diffusion-v1-5",
        revision: "451f4fe16113bff5a5d2269ed5ad43b0592e9a14",
        files: &[KnownFile {
            path: "v1-5-pruned-emaonly.safetensors",
            sha256: Some("6ce0161689b3853acaa03779ec93eafe75a02f4ced659bee03f50797806fa2fa"),
        }],
        size: 4_265_146_304,
    },
    Known {
        name: "sdxl-base",
        about: "Stable Diffusion XL 1.0, base (CreativeML Open RAIL++-M)",
        repo: "stabilityai/stable-diffusion-xl-base-1.0",
        revision: "462165984030d82259a11f4367a4eed129e94a7b",
        files: &[KnownFile {
            path: "sd_xl_base_1.0.safetensors",
            sha256: Some("31e35c80fc4829d14f90153f4c74cd59c90b779f6afe05a74cd6120b893f7e5b"),
        }],
        size: 6_938_078_334,
    },
    Known {
        name: "sd-vae-ft-mse",
        about: "autoencoder for SD 1.x with better faces, for --vae (MIT)",
        repo: "stabilityai/sd-vae-ft-mse",
        revision: "31f26fdeee1355a5c34592e401dd41e45d25a493",
        files: &[
            KnownFile {
                path: "diffusion_pytorch_model.safetensors",
                sha256: Some("a1d993488569e928462932c8c38a0760b874d166399b14414135bd9c42df5815"),
            },
            KnownFile {
                path: "config.json",
                sha256: None,
            },
        ],
        size: 334_643_276,
    },
    Known {
        name: "sdxl-vae-fp16-fix",
        about: "autoencoder for SDXL that does not overflow in f16, for --vae (MIT)",
        repo: "madebyollin/sdxl-vae-fp16-fix",
        revision: "207b116dae70ace3637169f1ddd2434b91b3a8cd",
        files: &[
            KnownFile {
                path: "diffusion_pytorch_model.safetensors",
                sha256: Some("1b909373b28f2137098b0fd9dbc6f97f8410854f31f84ddc9fa04b077b0ace2c"),
            },
            KnownFile {
                path: "config.json",
                sha256: None,
            },
        ],
        size: 334_643_238,
    },
    Known {
        name: "grounding-dino-base",
        about: "detector of any phrase, SpatialBench-UC's second one, for --checker and --secondary (Apache-2.0)",
        repo: "IDEA-Research/grounding-dino-base",
        revision: "12bdfa3120f3e7ec7b434d90674b3396eccf88eb",
        files: &[
            KnownFile {
                path: "model.safetensors",
                sha256: None,
            },
            KnownFile {
                path: "config.json",
                sha256: None,
            },
            KnownFile {
                path: "preprocessor_config.json",
                sha256: None,
            },
            KnownFile {
                path: "tokenizer.json",
                sha256: None,
            },
        ],
        size: 933_000_000,
    },
];

/// The known checkpoint called `name`.
pub fn catalog(name: &str) -> Option<&'static Known> {
    CATALOG.iter().find(|known| known.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_and_revisions_are_whole() {
        for known in CATALOG {
            assert_eq!(known.revision.len(), 40, "{}", known.name);
            for file in known.files {
                assert!(
                    file.sha256.is_none_or(|sha| sha.len() == 64),
                    "{}",
                    known.name
                );
            }
        }
    }
}
