//! Forgetting after the window, and the floor that is left (laws 24 to 26).

mod common;

use common::*;
use semel_core::{Claim, ClaimKey, Lane, Reason, Records, SweptStep, Timestamp, Writes};
use semel_sqlite::SqliteLane;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(60);

/// Claims with this message time, made so long ago.
async fn old(shop: &Shop, lane: &mut SqliteLane, id: &str, time: Option<i64>, ago: Duration) {
    let key = ClaimKey { time: time.map(Timestamp::from_millis), ..key(id) };
    assert_eq!(shop.claim(lane, &[key]).await, [Claim::Fresh]);
    age(lane, id, ago).await;
}

async fn age(lane: &mut SqliteLane, id: &str, ago: Duration) {
    let then = lane.now().minus(ago).as_millis();
    sqlx::query("update semel_claim set claimed_at = ?1 where message_id = ?2")
        .bind(then)
        .bind(id)
        .execute(lane.conn())
        .await
        .unwrap();
}

async fn left(lane: &mut SqliteLane) -> Vec<String> {
    sqlx::query_scalar("select message_id from semel_claim order by message_id").fetch_all(lane.conn()).await.unwrap()
}

#[tokio::test]
async fn old_claims_go_in_bounded_steps_and_raise_the_floor() {
    let (shop, mut lane) = shop().await;
    old(&shop, &mut lane, "a", Some(300), WINDOW * 4).await;
    old(&shop, &mut lane, "b", Some(100), WINDOW * 3).await;
    old(&shop, &mut lane, "c", None, WINDOW * 2).await;
    old(&shop, &mut lane, "d", Some(900), WINDOW / 2).await;
    assert_eq!(lane.floor(shop.consumer).await.unwrap(), None, "nothing swept, no floor");
    assert_eq!(lane.sweep(shop.consumer, WINDOW, 2).await.unwrap(), SweptStep { deleted: 2, more: true });
    assert_eq!(left(&mut lane).await, ["c", "d"], "oldest first");
    assert_eq!(lane.floor(shop.consumer).await.unwrap(), Some(Timestamp::from_millis(300)));
    assert_eq!(lane.sweep(shop.consumer, WINDOW, 2).await.unwrap(), SweptStep { deleted: 1, more: false });
    assert_eq!(
        lane.floor(shop.consumer).await.unwrap(),
        Some(Timestamp::from_millis(300)),
        "c had no time, and a floor never falls"
    );
    assert_eq!(lane.sweep(shop.consumer, WINDOW, 2).await.unwrap(), SweptStep::default());
    assert_eq!(left(&mut lane).await, ["d"]);

    begin(&mut lane, shop.consumer, &[key("new")]).await.unwrap();
    assert_eq!(
        lane.floor(shop.consumer).await.unwrap(),
        Some(Timestamp::from_millis(300)),
        "also inside an open transaction"
    );
    lane.rollback().await.unwrap();
    assert_eq!(lane.status().await.unwrap()[0].floor, Some(Timestamp::from_millis(300)));
}

#[tokio::test]
async fn what_waits_or_is_dead_is_kept_and_does_not_block_the_page() {
    let (shop, mut lane) = shop().await;
    for i in 0..5 {
        let id = format!("waits {i}");
        shop.wait(&mut lane, waiting(&id)).await;
        age(&mut lane, &id, WINDOW * 10).await;
        let id = format!("dead {i}");
        shop.bury(&mut lane, letter(Reason::Failed, Some(&id), 1)).await;
        age(&mut lane, &id, WINDOW * 10).await;
    }
    shop.claim(&mut lane, &[key("conflict")]).await;
    shop.bury(&mut lane, letter(Reason::Conflict, Some("conflict"), 2)).await;
    age(&mut lane, "conflict", WINDOW * 10).await;
    // Its coordinates read like an id; that is no dead letter of that message.
    let mut nameless = letter(Reason::MissingId, None, 1);
    nameless.envelope.coordinates = Some("done 0".to_owned());
    shop.bury(&mut lane, nameless).await;
    for i in 0..3 {
        old(&shop, &mut lane, &format!("done {i}"), Some(i), WINDOW * 2).await;
    }
    assert_eq!(lane.sweep(shop.consumer, WINDOW, 2).await.unwrap(), SweptStep { deleted: 2, more: true });
    assert_eq!(lane.sweep(shop.consumer, WINDOW, 2).await.unwrap(), SweptStep { deleted: 1, more: false });
    assert_eq!(left(&mut lane).await.len(), 11);
    assert!(left(&mut lane).await.iter().all(|id| !id.starts_with("done")));

    // Once it is done with, its window starts.
    begin(&mut lane, shop.consumer, &[ClaimKey { waiting: Some(1), ..key("waits 0") }]).await.unwrap();
    write(&mut lane, Writes { finished: vec!["waits 0".into()], ..Writes::default() }).await.unwrap();
    assert_eq!(lane.sweep(shop.consumer, WINDOW, 100).await.unwrap(), SweptStep::default());
    age(&mut lane, "waits 0", WINDOW * 2).await;
    assert_eq!(lane.sweep(shop.consumer, WINDOW, 100).await.unwrap(), SweptStep { deleted: 1, more: false });
}

#[tokio::test]
async fn a_sweep_is_one_consumers() {
    let (shop, mut lane) = shop().await;
    let second = lane.register("shipping", None).await.unwrap();
    old(&shop, &mut lane, "m", Some(5), WINDOW * 2).await;
    begin(&mut lane, second, &[key("m")]).await.unwrap();
    lane.commit(&Writes::default()).await.unwrap();
    age(&mut lane, "m", WINDOW * 2).await;
    assert_eq!(lane.sweep(second, WINDOW, 10).await.unwrap().deleted, 1);
    assert_eq!(lane.floor(second).await.unwrap(), None);
    assert_eq!(left(&mut lane).await, ["m"]);
    assert_eq!(lane.sweep(shop.consumer, Duration::MAX, 10).await.unwrap(), SweptStep::default());
    assert_eq!(lane.sweep(shop.consumer, WINDOW, 0).await.unwrap(), SweptStep::default());
}

/// The claims of one page are looked up by the index on their age, not by reading all.
#[tokio::test]
async fn the_plans_use_the_indexes() {
    let (_shop, mut lane) = shop().await;
    for (sql, part) in [
        (include_str!("../sql/sweep_delete.sql"), "USING INDEX semel_claim_age (consumer=? AND claimed_at<?)"),
        (include_str!("../sql/sweep_floor.sql"), "USING INDEX semel_claim_age (consumer=? AND claimed_at<?)"),
        (include_str!("../sql/sweep_delete.sql"), "SEARCH semel_claim USING PRIMARY KEY (consumer=? AND message_id=?)"),
        (include_str!("../sql/verdicts.sql"), "SEARCH semel_claim USING PRIMARY KEY (consumer=? AND message_id=?)"),
        (
            include_str!("../sql/waiting_still.sql"),
            "USING INDEX sqlite_autoindex_semel_inbox_1 (consumer=? AND message_id=?)",
        ),
        (
            include_str!("../sql/retry_waiting.sql"),
            "USING INDEX sqlite_autoindex_semel_inbox_1 (consumer=? AND message_id=?)",
        ),
        (
            include_str!("../sql/finish_waiting.sql"),
            "USING INDEX sqlite_autoindex_semel_inbox_1 (consumer=? AND message_id=?)",
        ),
        (include_str!("../sql/due.sql"), "SEARCH waiting USING INDEX semel_inbox_due (consumer=? AND due_at<?)"),
        (
            include_str!("../sql/due.sql"),
            "SEARCH earlier USING INDEX semel_inbox_holds (consumer=? AND key=? AND seq<?)",
        ),
        (include_str!("../sql/next_due.sql"), "SEARCH waiting USING INDEX semel_inbox_due (consumer=?)"),
        (include_str!("../sql/held_keys.sql"), "SEARCH held USING INDEX semel_inbox_holds (consumer=? AND key=?)"),
        (
            "select exists (select 1 from semel_inbox where consumer = ?1 and holds and key is not null)",
            "USING INDEX semel_inbox_holds (consumer=? AND key>?)",
        ),
        (
            include_str!("../sql/insert_dead_letter.sql"),
            "USING INDEX sqlite_autoindex_semel_dead_letter_1 (consumer=? AND",
        ),
        (
            include_str!("../sql/dead_letters_of.sql"),
            "USING INDEX sqlite_autoindex_semel_dead_letter_1 (consumer=? AND reference=?)",
        ),
        (include_str!("../sql/let_go.sql"), "sqlite_autoindex_semel_dead_letter_1 (consumer=? AND reference=?)"),
    ] {
        let explain = sqlx::AssertSqlSafe(format!("explain query plan {sql}"));
        let rows = sqlx::query(explain).fetch_all(lane.conn()).await.unwrap();
        let plan: Vec<String> = rows
            .iter()
            .filter_map(|row| sqlx::Row::try_get(row, "detail").ok())
            .map(|step: String| step.replace(" COVERING", "").replace(" EXISTS", ""))
            .collect();
        assert!(plan.iter().any(|step| step.contains(part)), "{sql}\n{plan:#?}");
    }
}
