//! Bytes to modules: checkpoint formats, key maps, tokenizer files, the embedded checkpoint.

pub mod tokenizer;
