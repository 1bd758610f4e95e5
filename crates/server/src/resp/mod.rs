//! The protocol of Redis, RESP 2 and 3: what clients send ([`Parser`]), what they are answered
//! ([`Replies`]), and answers as a client reads them ([`Reply`]).
//!
//! | file | what |
//! | --- | --- |
//! | `parser.rs` | from bytes to commands, as they come in |
//! | `inline.rs` | commands that people type |
//! | `args.rs` | a command's arguments, where they lie |
//! | `replies.rs` | from answers to bytes |
//! | `reply.rs` | from bytes to answers: for clients and tests |

mod args;
mod inline;
mod parser;
mod replies;
mod reply;

pub use args::Args;
pub(crate) use args::{Kept, Source};
pub use parser::{ARGS_MAX, Limits, Parser, ProtocolError, Step};
pub(crate) use replies::Awaited;
pub use replies::{Replies, Version};
pub use reply::{NESTING_MAX, ParseReplyError, Reply};
