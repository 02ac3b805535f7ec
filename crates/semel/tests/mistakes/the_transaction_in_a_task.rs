//! A task could outlive the transaction.

use semel::{HandlerResult, Sqlite, Tx};

#[derive(serde::Serialize, serde::Deserialize)]
struct Paid {
    order_id: i64,
}
impl semel::Message for Paid {
    const KIND: &'static str = "paid";
}

async fn handle(tx: &mut Tx<'_, Sqlite>, _: Paid) -> HandlerResult {
    tokio::spawn(async move {
        let _ = sqlx::query("select 1").execute(tx.conn()).await;
    });
    Ok(())
}

fn main() {}
