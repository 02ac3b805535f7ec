//! The one-call forms, inside a task, with what they borrow.

use std::sync::atomic::{AtomicU64, Ordering};

use semel::{AckPermit, BrokerError, Delivery, Envelope, Outcome, ProcessError, Semel, Settle, Settled, Sqlite, Store};

/// A loop of one's own, on any store: borrowed locals, and the permit that the acknowledgement needs.
async fn work<S: Store, K: Settle>(
    semel: &Semel<S>,
    delivery: Delivery<K>,
) -> Result<Settled, Box<dyn std::error::Error + Send + Sync>> {
    let label = String::from("billing");
    let (name, tries) = (&label, AtomicU64::new(0));
    let permit: AckPermit = semel
        .process(name, &delivery, async |tx| {
            tries.fetch_add(1, Ordering::Relaxed);
            let id = tx.message().map(|message| message.id().to_owned());
            tokio::task::yield_now().await;
            drop((id, name.len()));
            Ok(())
        })
        .await?;
    match permit.outcome() {
        Outcome::Processed | Outcome::Duplicate => {}
        other => return Err(format!("{other:?}").into()),
    }
    Ok(delivery.ack(permit).await?)
}

/// Without a message.
async fn number(semel: &Semel<Sqlite>, add: i64) -> Result<i64, ProcessError> {
    semel
        .transaction(async |tx| {
            let one: i64 = sqlx::query_scalar("select 1").fetch_one(tx.conn()).await?;
            Ok(one + add)
        })
        .await
}

struct Silent;
impl Settle for Silent {
    async fn ack(self, _: AckPermit) -> Settled {
        Settled::Confirmed
    }
    async fn back(self, _: std::time::Duration) -> Settled {
        Settled::Lost
    }
}

async fn in_tasks(semel: Semel<Sqlite>) -> Result<(), BrokerError> {
    let (one, two) = (semel.clone(), semel.clone());
    let worked = tokio::spawn(async move {
        let delivery = Delivery::new(Envelope::new("1", "{}"), Silent);
        work(&one, delivery).await.is_ok()
    });
    let numbered = tokio::spawn(async move {
        let add = 41;
        number(&two, add).await
    });
    let borrowed = tokio::spawn(async move {
        let amount = vec![1, 2, 3];
        let message = Envelope::new("2", "{}");
        let sum = &amount;
        semel
            .process("billing", &message, async |tx| {
                for amount in sum {
                    sqlx::query("insert into refund (amount) values (?)").bind(amount).execute(tx.conn()).await?;
                }
                Ok(())
            })
            .await
            .map(|permit| permit.outcome())
    });
    drop((worked, numbered, borrowed));
    Ok(())
}

#[tokio::test]
async fn they_all_fit_into_tasks() {
    // Never polled, so nothing is opened.
    drop(in_tasks(Semel::new(Sqlite::open("never-made.db").expect("a path"))));
}
