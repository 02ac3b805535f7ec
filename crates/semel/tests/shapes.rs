//! Every shape of a handler and of its work: that this compiles is the test.
#![cfg(feature = "sqlite")]

#[path = "shapes/handlers.rs"]
mod handlers;
#[path = "shapes/one_call.rs"]
mod one_call;
