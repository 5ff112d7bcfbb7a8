//! prepose.
