//! The tables: made under a lock, once, by whoever comes first; and refused where they are not what this program knows (law 32).

use super::check::checks;
use super::fixture::Fixture;
use super::stage::{Stage, TABLES, joined, tables};
use semel_core::{Envelope, Lane, Outcome, Records, Semel, Setup, Store, StoreError, Trouble};
use std::sync::Arc;
use tokio::sync::Barrier;

checks! {
    "migrate works on an empty database, and again, and changes nothing then" => migrating_twice,
    "ten processes that migrate one empty database all succeed, and its setups run once" => ten_at_once,
    "a database without tables is told from a broken one: a person must migrate it" => no_tables_yet,
    "a setup runs once for a database, in order, with those that come later" => setups_run_once,
    "a setup that was changed after it ran is refused, and nothing runs" => a_changed_setup,
    "a setup that fails rolls everything back" => a_failing_setup,
    "a setup that ends the transaction is found out, and is not taken for done" => a_setup_with_its_own_commit,
    "law 32: a schema of a newer program is refused, and nothing is claimed" => a_newer_schema,
}

fn setup(name: &str, sql: &str) -> Setup {
    Setup { name: name.to_owned(), sql: sql.to_owned() }
}

fn is_schema<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    let error = result.expect_err("refused");
    assert_eq!(error.trouble, Trouble::Schema, "{error}");
    assert!(!error.message.is_empty());
}

async fn migrating_twice<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    assert_eq!(stage.process("c", &Envelope::new("a", "body")).await, Outcome::Processed);
    for semel in [stage.semel.clone(), stage.another(fixture)] {
        semel.migrate(&[tables()]).await.expect("migrate again");
        semel.migrate(&[]).await.expect("migrate without setups");
        let mut lane = semel.lane().await.expect("a lane");
        lane.check_schema().await.expect("check_schema");
        lane.done();
    }
    assert_eq!(stage.number("c").await, number);
    assert_eq!(stage.process("c", &Envelope::new("a", "body")).await, Outcome::Duplicate);
}

async fn ten_at_once<F: Fixture>(fixture: &F) {
    for _ in 0..3 {
        let database = fixture.database().await;
        let start = Arc::new(Barrier::new(10));
        let tasks: Vec<_> = (0..10)
            .map(|process| {
                // Each its own handle, as each would be a process.
                let (semel, start) = (Semel::new(fixture.store(&database, 1)), start.clone());
                tokio::spawn(async move {
                    start.wait().await;
                    let setups = [tables(), setup("more.sql", "insert into effects values ('set up')")];
                    semel.migrate(&setups).await.expect("migrate");
                    semel.register(&format!("consumer {}", process % 2), None).await.expect("register")
                })
            })
            .collect();
        for task in tasks {
            joined(task).await;
        }
        assert_eq!(F::read(&database, "select v from effects").await, ["set up"], "once");
    }
}

async fn no_tables_yet<F: Fixture>(fixture: &F) {
    let database = fixture.database().await;
    let store = fixture.store(&database, 1);
    is_schema(store.connect().await.expect("connect").check_schema().await);
    is_schema(store.connect().await.expect("connect").register("c", None).await);
    let mut lane = store.connect().await.expect("connect");
    is_schema(lane.begin(&super::stage::claims(semel_core::ConsumerNumber(1), &[super::stage::key("a")])).await);
}

async fn setups_run_once<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let one = setup(
        "one.sql",
        "-- a comment\ninsert into effects values ('1');\n\ninsert into effects values ('one; ''quoted''');\n",
    );
    let two = setup("two.sql", "update effects set v = v || '!' where v = '1'");
    let nothing = setup("empty.sql", "\n-- nothing but a comment\n");
    stage.semel.migrate(&[tables(), one.clone()]).await.expect("migrate");
    stage.semel.migrate(&[tables(), one.clone(), nothing.clone(), two.clone()]).await.expect("migrate with a new one");
    for _ in 0..2 {
        stage
            .another(fixture)
            .migrate(&[nothing.clone(), two.clone(), one.clone(), tables()])
            .await
            .expect("in another order");
    }
    assert_eq!(stage.effects().await, ["1!", "one; 'quoted'"]);
}

async fn a_changed_setup<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let new = setup("new.sql", "insert into effects values ('new')");
    let changed = setup("contract.sql", &format!("{TABLES} insert into effects values ('changed');"));
    for setups in [[changed.clone(), new.clone()], [new.clone(), changed.clone()]] {
        let refused = stage.semel.migrate(&setups).await.expect_err("refused");
        assert_eq!(refused.trouble, Trouble::Schema, "{refused}");
        assert!(refused.message.contains("contract.sql"), "it says which: {refused}");
        assert!(stage.effects().await.is_empty(), "nothing ran");
    }
    stage.semel.migrate(&[tables(), new]).await.expect("the old text is known");
    assert_eq!(stage.effects().await, ["new"]);
}

async fn a_failing_setup<F: Fixture>(fixture: &F) {
    let database = fixture.database().await;
    let semel = Semel::new(fixture.store(&database, 1));
    let good = setup("good.sql", "insert into effects values ('good')");
    let bad = setup(
        "bad.sql",
        "insert into effects values ('bad'); insert into no_such_table values ('x'); insert into effects values ('worse')",
    );
    let failed = semel.migrate(&[tables(), good.clone(), bad]).await.expect_err("it fails");
    assert!(failed.message.contains("bad.sql"), "it says which: {failed}");
    is_schema(fixture.store(&database, 1).connect().await.expect("connect").check_schema().await);
    let mended = setup("bad.sql", "insert into effects values ('mended')");
    semel.migrate(&[tables(), good, mended]).await.expect("nothing was left behind");
    let stage = Stage::<F> { semel, database };
    assert_eq!(stage.effects().await, ["good", "mended"]);
    let bad = setup("later.sql", "insert into effects values ('bad'); this is no SQL");
    stage.semel.migrate(&[bad]).await.expect_err("it fails");
    assert_eq!(stage.effects().await, ["good", "mended"]);
    assert_eq!(stage.process("c", &Envelope::new("a", "body")).await, Outcome::Processed, "the handle works on");
}

async fn a_setup_with_its_own_commit<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    for sql in ["commit", "rollback", "commit; begin", "rollback; begin"] {
        let bad = setup("bad.sql", &format!("insert into sums values ('x', 1); {sql}; delete from sums where k = 'x'"));
        let failed = stage.semel.migrate(std::slice::from_ref(&bad)).await.expect_err("it ends the transaction");
        assert!(failed.message.contains("bad.sql"), "it says which: {failed}");
        stage.nobody_is_left_in_a_transaction().await;
        // A raw COMMIT may have committed what stood before it, where the store cannot stop it.
        let _ = stage
            .semel
            .transaction(async |tx| Ok(F::execute(tx.conn(), "delete from sums where k = 'x'").await?))
            .await;
        let mended = setup("bad.sql", &format!("insert into effects values ('{sql}')"));
        stage.semel.migrate(&[Setup { name: format!("{sql}.sql"), ..mended }]).await.expect("the handle works on");
    }
    stage
        .semel
        .migrate(&[setup("bad.sql", "insert into effects values ('mended')")])
        .await
        .expect("it never counted as done");
    assert_eq!(stage.effects().await.len(), 5);
}

async fn a_newer_schema<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    stage.number("c").await;
    if !F::fake_newer_schema(&stage.database).await {
        return;
    }
    let store = fixture.store(&stage.database, 1);
    is_schema(store.connect().await.expect("connect").check_schema().await);
    is_schema(store.connect().await.expect("connect").migrate(&[]).await);
    for name in ["c", "new"] {
        is_schema(store.connect().await.expect("connect").register(name, None).await);
    }
    let other = stage.another(fixture);
    let refused = super::stage::process::<F>(&other, "c", &Envelope::new("a", "body")).await;
    assert!(refused.is_err() && stage.effects().await.is_empty(), "an older program claims nothing: {refused:?}");
}
