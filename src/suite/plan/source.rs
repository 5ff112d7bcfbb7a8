//! Where the pictures of a run come from that are not made here.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::sources::Wishes;
use crate::sources::folder::Layout;

/// Where pictures come from that are not made here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum SourceId {
    /// They are there already.
    Pictures {
        /// What made them.
        name: String,
        /// How their files are named.
        layout: Layout,
    },
    /// A server makes them.
    Endpoint {
        /// The model.
        name: String,
        /// The server's interface.
        interface: Interface,
        /// Without secrets.
        address: String,
        /// What is asked of it besides the prompt.
        wishes: Wishes,
        /// Further fields, as the server has them.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        fields: Map<String, Value>,
        /// SHA-256 of ComfyUI's graph.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workflow: Option<String>,
    },
    /// A program makes them.
    Maker {
        /// What it makes them with, as it says or as it was called.
        name: String,
        /// The version of that, if it says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// What is asked of it besides the prompt.
        wishes: Wishes,
    },
}

/// How a server of pictures is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interface {
    /// OpenAI's `images/generations`.
    #[default]
    OpenAi,
    /// ComfyUI's.
    ComfyUi,
    /// AUTOMATIC1111's `sdapi`.
    WebUi,
}

impl SourceId {
    /// What makes the pictures.
    pub fn name(&self) -> &str {
        match self {
            Self::Pictures { name, .. }
            | Self::Endpoint { name, .. }
            | Self::Maker { name, .. } => name,
        }
    }

    /// What is asked of it besides the prompt.
    pub fn wishes(&self) -> Wishes {
        match self {
            Self::Pictures { .. } => Wishes::default(),
            Self::Endpoint { wishes, .. } | Self::Maker { wishes, .. } => wishes.clone(),
        }
    }

    /// Whether what it gives costs time or money, so that it is kept at once.
    pub fn is_dear(&self) -> bool {
        !matches!(self, Self::Pictures { .. })
    }
}
