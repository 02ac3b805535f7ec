//! The open transaction, as handlers see it.

use crate::identity::Incoming;
use crate::store::Store;

/// The open transaction that already holds this message's claim. There is no `commit` here, and no way to reach one by type.
pub struct Tx<'t, S: Store> {
    conn: &'t mut S::Conn,
    message: Option<&'t Incoming>,
}

impl<'t, S: Store> Tx<'t, S> {
    pub(crate) fn new(conn: &'t mut S::Conn) -> Self {
        Tx { conn, message: None }
    }

    pub(crate) fn turn_to(&mut self, message: &'t Incoming) {
        self.message = Some(message);
    }

    /// The store's own connection, e.g. `&mut sqlx::PgConnection`. What is written through it is committed together with the claim, or not at
    /// all. A nested `begin` is a savepoint; a `COMMIT` sent by hand is found out, and is a failed try (law 11).
    pub fn conn(&mut self) -> &mut S::Conn {
        self.conn
    }

    /// The message being handled: id, kind, key, headers, attempt. In a batch handler the first of its run; `None` in
    /// [`Semel::transaction`](crate::Semel::transaction).
    pub fn message(&self) -> Option<&'t Incoming> {
        self.message
    }

    /// The first header of that name of the message being handled.
    pub fn header(&self, name: &str) -> Option<&'t str> {
        self.message?.header(name)
    }
}
