//! The handler of `semel run`: shows the batch to the author's SQL as the relation `messages`, in the claiming transaction.

use crate::store::SqlStore;
use semel::{HandlerError, HandlerResult, Incoming, RawHandler, Tx};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// One row of `messages`.
#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    kind: &'a str,
    key: Option<&'a str>,
    time: Option<String>,
    headers: BTreeMap<&'a str, &'a str>,
    body: &'a RawValue,
    attempt: u32,
}

/// The author's statements for one kind.
pub(crate) struct Sql<S: SqlStore>(pub(crate) S::Statements);

impl<S: SqlStore> RawHandler<S> for Sql<S> {
    async fn handle(&self, tx: &mut Tx<'_, S>, run: &[&Incoming]) -> HandlerResult {
        let batch = batch(run)?;
        S::run(&self.0, tx.conn(), &batch).await
    }
}

fn batch(run: &[&Incoming]) -> HandlerResult<String> {
    let rows = run.iter().map(|message| row(message)).collect::<HandlerResult<Vec<_>>>()?;
    Ok(serde_json::to_string(&rows)?)
}

fn row<'a>(message: &'a Incoming) -> HandlerResult<Row<'a>> {
    // Parsed before, when the message was identified; taken as it stands, so that no number changes on its way.
    let body = serde_json::from_slice(message.body()).map_err(|_| HandlerError::undecodable("the body is not JSON"))?;
    Ok(Row {
        id: message.id(),
        kind: message.kind(),
        key: message.key(),
        time: message.time().map(|time| time.to_string()),
        headers: message.headers().iter().map(|(name, value)| (&**name, &**value)).collect(),
        body,
        attempt: message.attempt(),
    })
}
