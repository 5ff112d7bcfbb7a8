//! From requests to pictures: text → conditioning → denoise → decode.
//!
//! * `blueprint`: a checkpoint before its weights are read; checks requests;
//! * `networks`: its networks on a device, the [`Engine`];
//! * `pictures`: whole batches, and decoding; the place to begin reading;
//! * `together`: which requests may share a batch;
//! * `session`: a batch that is denoised step by step;
//! * `conditioning` and `texts`: from prompts to what the UNet reads;
//! * `adapters`: from pictures as prompts to what the UNet reads;
//! * `training`: captions and pictures as a training reads them;
//! * `needs` and `fit`: how much memory a batch takes, and what is done when there is too little.

mod adapters;
mod blueprint;
mod conditioning;
mod error;
mod fit;
mod init_image;
mod needs;
mod networks;
mod pictures;
mod savings;
mod session;
mod texts;
mod together;
mod training;
mod upscale;

pub use blueprint::{Blueprint, Defaults};
pub use error::EngineError;
pub use fit::Task;
pub use needs::Needs;
pub use networks::Engine;
pub use pictures::Generated;
pub use session::Session;
pub use texts::final_prompt;
pub use together::BatchShape;
pub use training::CaptionStates;
