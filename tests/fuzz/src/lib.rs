//! What is fuzzed: each target gives arbitrary bytes to a reader and panics if what comes out breaks a promise of the
//! reader's. `scripts/fuzz/run.sh` builds and runs them.

mod captions;
mod engine;
mod formats;
mod judges;
mod records;
mod servers;
mod text;

/// Takes any bytes.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("safetensors", formats::safetensors),
    ("pytorch", formats::pytorch),
    ("pickle", formats::pickle),
    ("prompt-weights", text::prompt_weights),
    ("prompt-schedule", text::prompt_schedule),
    ("scene", text::scene),
    ("messages", text::messages),
    ("records", records::records),
    ("checker-config", records::checker_config),
    ("audit-tables", records::audit_tables),
    ("judge-answers", judges::answers),
    ("scene-graphs", judges::graphs),
    ("scene-answers", judges::texts),
    ("judge-books", judges::books),
    ("chat-answers", servers::chat),
    ("endpoint-answers", servers::endpoints),
    ("source-templates", servers::templates),
    ("detected", records::detected),
    ("captions", captions::captions),
    ("caption-files", captions::files),
    ("spatialgen", captions::spatialgen),
    ("pictures", engine::pictures),
    ("requests", engine::requests),
    ("methods", engine::methods),
    ("prompt-files", engine::prompts),
];

/// The text that `bytes` are, if they are any.
fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
