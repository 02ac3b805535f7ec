//! Errors of the program, with their exit code.

use crate::config::ConfigErrors;
use semel::{ReplayError, RunError, StoreError};
use std::process::ExitCode;

/// Why a verb failed. Its text is one or more whole sentences: what happened, and what to do next.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error("{0}")]
    Config(#[from] ConfigErrors),
    #[error("{0}")]
    Use(String),
    #[error("{0}")]
    Failed(String),
}

impl CliError {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            CliError::Config(_) | CliError::Use(_) => ExitCode::from(2),
            CliError::Failed(_) => ExitCode::FAILURE,
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        CliError::Failed(error.to_string())
    }
}
impl From<RunError> for CliError {
    fn from(error: RunError) -> Self {
        CliError::Failed(error.to_string())
    }
}
impl From<ReplayError> for CliError {
    fn from(error: ReplayError) -> Self {
        CliError::Failed(error.to_string())
    }
}
