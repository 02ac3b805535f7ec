//! `semel::Sqlite` is meant, and `sqlx::Sqlite` was imported.

use semel::{HandlerResult, Tx};
use sqlx::Sqlite;

#[derive(serde::Serialize, serde::Deserialize)]
struct Paid {
    order_id: i64,
}
impl semel::Message for Paid {
    const KIND: &'static str = "paid";
}

async fn handle(_: &mut Tx<'_, Sqlite>, _: Paid) -> HandlerResult {
    Ok(())
}

fn main() {}
