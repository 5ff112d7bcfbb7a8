//! Vision-language models as judges: questions about pictures, asked exactly as the papers ask them, and books about the
//! answers.
//!
//! * [`question`]: what is asked of a picture, and how its answer is read: strictly, so that what is none of the answers is
//!   invalid and never wrong;
//! * [`ask`]: asks many questions at once; what has an answer in the [`book`] is not asked again;
//! * [`chat`]: any server with an OpenAI-compatible chat endpoint that takes pictures;
//! * [`oracle`]: answers the same questions from detections, by geometry;
//! * [`ots`]: OTS-Bench's four settings (Order Is Not Layout, arXiv 2603.03714);
//! * [`prompted`]: both papers' questions about pictures of any prompt, as runs and `check` ask them;
//! * [`answers`]: what answers were like, whatever was asked;
//! * [`scene`]: scene graphs, their questions and SGScore (Scene-Bench);
//! * [`spatialgen`]: ten questions at once, five rounds, two controls (SpatialGenEval).
//!
//! It knows neither the generator nor detectors' networks. It may import `prepose-check`, `prepose-draw`,
//! `prepose-statistics`, `prepose-remote` and `prepose-untrusted`.

#![warn(clippy::unwrap_used)]

pub mod answers;
pub mod ask;
pub mod book;
pub mod chat;
pub mod oracle;
pub mod ots;
pub mod picture;
pub mod prompted;
pub mod question;
pub mod scene;
pub mod spatialgen;

#[cfg(test)]
mod tests;
