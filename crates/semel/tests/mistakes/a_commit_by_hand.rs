//! semel commits, after it has proved that the claim is still held.

use semel::{HandlerResult, Sqlite, Tx};

#[derive(serde::Serialize, serde::Deserialize)]
struct Paid {
    order_id: i64,
}
impl semel::Message for Paid {
    const KIND: &'static str = "paid";
}

async fn handle(tx: &mut Tx<'_, Sqlite>, _: Paid) -> HandlerResult {
    tx.commit().await?;
    Ok(())
}

async fn handle_otherwise(tx: &mut Tx<'_, Sqlite>, _: Paid) -> HandlerResult {
    tx.conn().commit().await?;
    Ok(())
}

fn main() {}
