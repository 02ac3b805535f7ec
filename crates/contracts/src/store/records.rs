//! Names, positions, attempts, signs of life and the clock.

use super::check::checks;
use super::dead_letters::letter;
use super::fixture::Fixture;
use super::stage::{HOUR, LaneOf, SOON, Stage, begin, joined, key, waiting, waiting_key};
use semel_core::{
    Attempt, Claim, ConsumerNumber, DeadFilter, Forgotten, Instance, Lane, Positions, Reason, Records, Setup,
    Timestamp, Writes,
};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;

checks! {
    "law 2: a name has one number, for ever and for everybody; other names have others" => names_have_numbers,
    "law 2: twenty processes that register one name get one number" => registering_races,
    "law 24: the window of a consumer is stored with its name" => windows_are_stored,
    "positions are kept by consumer, source and unit; units that are not named stay" => positions,
    "law 15: an attempt is open until a commit closes it" => attempts,
    "law 15: processes are written down with the time since their last sign of life" => instances,
    "a record is a transaction of its own, committed when it answers, whatever its lane did before" => each_is_committed,
    "law 23: `now` is the database's clock" => the_clock,
}

async fn names_have_numbers<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let mut lane = stage.lane().await;
    let names = ["billing", "Billing", "billing ", "é", "e\u{301}", "'; drop table effects; --", "%", "😀"];
    assert_eq!(lane.consumer("billing").await.expect("consumer"), None);
    let mut numbers = Vec::new();
    for name in names {
        numbers.push(lane.register(name, None).await.expect("register"));
    }
    assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), names.len(), "{numbers:?}");
    assert!(!numbers.contains(&ConsumerNumber(0)), "0 stands for no consumer");
    let mut other = stage.lane().await;
    for (name, number) in names.into_iter().zip(numbers) {
        assert_eq!(other.register(name, Some(HOUR)).await.expect("register"), number, "{name:?}");
        assert_eq!(other.consumer(name).await.expect("consumer"), Some(number), "{name:?}");
    }
    assert_eq!(lane.consumer("BILLING").await.expect("consumer"), None);
}

async fn registering_races<F: Fixture>(fixture: &F) {
    const TASKS: usize = 20;
    let stage = Stage::with_lanes(fixture, 8).await;
    for round in 0..5 {
        let start = Arc::new(Barrier::new(TASKS));
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (semel, start) = (stage.semel.clone(), start.clone());
                tokio::spawn(async move {
                    start.wait().await;
                    semel.register(&format!("consumer {round}"), Some(HOUR)).await.expect("register")
                })
            })
            .collect();
        let mut numbers = HashSet::new();
        for task in tasks {
            numbers.insert(joined(task).await);
        }
        assert_eq!(numbers.len(), 1, "round {round}: {numbers:?}");
    }
}

async fn windows_are_stored<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let mut lane = stage.lane().await;
    for (given, expected) in
        [(None, None), (Some(HOUR), Some(HOUR)), (None, Some(HOUR)), (Some(HOUR * 2), Some(HOUR * 2))]
    {
        lane.register("c", given).await.expect("register");
        let all = lane.status().await.expect("status");
        assert_eq!(all[0].window, expected, "after {given:?}");
    }
}

fn at(positions: &[(&str, &str)]) -> Positions {
    positions.iter().map(|(unit, position)| ((*unit).to_owned(), (*position).to_owned())).collect()
}

async fn positions<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let (c, d) = (stage.number("c").await, stage.number("d").await);
    let mut lane = stage.lane().await;
    assert!(lane.positions(c, "s").await.expect("positions").is_empty());
    let first = at(&[("", "0"), ("0", "17"), ("1", "{\"offset\": 5}"), ("é", "'x'")]);
    lane.save_positions(c, "s", &first).await.expect("save_positions");
    assert_eq!(lane.positions(c, "s").await.expect("positions"), first);
    lane.save_positions(c, "s", &at(&[("0", "18"), ("2", "1")])).await.expect("save_positions");
    let second = at(&[("", "0"), ("0", "18"), ("1", "{\"offset\": 5}"), ("2", "1"), ("é", "'x'")]);
    assert_eq!(lane.positions(c, "s").await.expect("positions"), second);
    for (consumer, source) in [(d, "s"), (c, "S"), (c, "s ")] {
        assert!(lane.positions(consumer, source).await.expect("positions").is_empty(), "{source:?}");
        lane.save_positions(consumer, source, &at(&[("", "9")])).await.expect("save_positions");
    }
    assert_eq!(lane.positions(c, "s").await.expect("positions"), second);
    lane.save_positions(c, "s", &Positions::new()).await.expect("save nothing");
    assert_eq!(stage.lane().await.positions(c, "s").await.expect("positions"), second, "on another connection");
}

async fn attempts<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let (c, d) = (stage.number("c").await, stage.number("d").await);
    let mut lane = stage.lane().await;
    assert_eq!(lane.attempt(c, "a").await.expect("attempt"), None);
    let attempt = |instance: &str, crashes| Attempt { instance: instance.to_owned(), crashes };
    for expected in [attempt("one", 0), attempt("two", 1), attempt("two", 2)] {
        lane.open_attempt(c, "a", &expected).await.expect("open_attempt");
        assert_eq!(
            stage.lane().await.attempt(c, "a").await.expect("attempt"),
            Some(expected),
            "committed, for others to see"
        );
    }
    assert_eq!(lane.attempt(c, "A").await.expect("attempt"), None);
    assert_eq!(lane.attempt(d, "a").await.expect("attempt"), None);
    for (consumer, id) in [(c, "b"), (d, "a")] {
        lane.open_attempt(consumer, id, &attempt("one", 0)).await.expect("open_attempt");
    }
    let closed = || Writes { closed: vec!["a".to_owned(), "unknown".to_owned()], ..Writes::default() };
    lane.begin(&super::stage::claims(c, &[])).await.expect("begin");
    lane.rollback().await.expect("rollback");
    stage.write(c, &closed()).await;
    assert_eq!(lane.attempt(c, "a").await.expect("attempt"), None);
    assert!(
        lane.attempt(c, "b").await.expect("attempt").is_some()
            && lane.attempt(d, "a").await.expect("attempt").is_some()
    );
    // An open attempt is no claim.
    assert_eq!(stage.process("c", &semel_core::Envelope::new("b", "body")).await, semel_core::Outcome::Processed);
}

async fn instances<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let (c, d) = (stage.number("c").await, stage.number("d").await);
    let mut lane = stage.lane().await;
    let one =
        Instance { id: "one".to_owned(), place: "boot 'x' pid:[4]".to_owned(), process: u32::MAX, started: 1 << 60 };
    let two = Instance { id: "two".to_owned(), place: String::new(), process: 0, started: 0 };
    for instance in [&one, &two, &one] {
        lane.beat(c, instance).await.expect("beat");
    }
    lane.beat(d, &one).await.expect("beat");
    let mut seen = lane.instances(c).await.expect("instances");
    seen.sort_by(|a, b| a.instance.id.cmp(&b.instance.id));
    assert_eq!(seen.iter().map(|seen| &seen.instance).collect::<Vec<_>>(), [&one, &two], "as they were written down");
    assert!(seen.iter().all(|seen| seen.silent < SOON), "{seen:?}");
    lane.remove_instance(c, "one").await.expect("remove_instance");
    lane.remove_instance(c, "one").await.expect("remove it again");
    let left = lane.instances(c).await.expect("instances");
    assert_eq!(left.iter().map(|seen| &*seen.instance.id).collect::<Vec<_>>(), ["two"]);
    assert_eq!(lane.instances(d).await.expect("instances").len(), 1, "another consumer's");
}

/// What a lane did last.
async fn before<F: Fixture>(lane: &mut LaneOf<F>, number: ConsumerNumber, round: usize) {
    let id = format!("round {round}");
    match round % 4 {
        0 => drop(lane.consumer("c").await.expect("consumer")),
        1 => {
            begin::<F>(lane, number, &[key(&id)]).await;
            lane.commit(&Writes::default()).await.expect("commit");
        }
        2 => {
            begin::<F>(lane, number, &[key(&id)]).await;
            lane.rollback().await.expect("rollback");
        }
        _ => {
            begin::<F>(lane, number, &[key(&id)]).await;
            lane.commit(&Writes { closed: vec![id.clone()], ..Writes::default() }).await.expect("commit");
        }
    }
}

async fn each_is_committed<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let c = stage.number("c").await;
    let (mut lane, mut other) = (stage.lane().await, stage.lane().await);
    let instance = Instance::current();
    for round in 0..4 {
        let name = format!("{round}");
        let claimed = [key(&name)];
        before::<F>(&mut lane, c, round).await;
        let number = lane.register(&name, None).await.expect("register");
        assert_eq!(other.consumer(&name).await.expect("consumer"), Some(number), "register, {round}");
        before::<F>(&mut lane, number, round).await;
        lane.save_positions(number, "s", &at(&[("", "1")])).await.expect("save_positions");
        assert_eq!(other.positions(number, "s").await.expect("positions"), at(&[("", "1")]), "save_positions, {round}");
        before::<F>(&mut lane, number, round + 4).await;
        lane.beat(number, &instance).await.expect("beat");
        assert_eq!(other.instances(number).await.expect("instances").len(), 1, "beat, {round}");
        before::<F>(&mut lane, number, round + 8).await;
        lane.remove_instance(number, &instance.id).await.expect("remove_instance");
        assert!(other.instances(number).await.expect("instances").is_empty(), "remove_instance, {round}");
        before::<F>(&mut lane, number, round + 12).await;
        let attempt = Attempt { instance: "one".to_owned(), crashes: 0 };
        lane.open_attempt(number, "a", &attempt).await.expect("open_attempt");
        assert_eq!(other.attempt(number, "a").await.expect("attempt"), Some(attempt), "open_attempt, {round}");

        let dead = Writes { dead: vec![letter(Reason::Failed, &name)], ..Writes::default() };
        stage.commit(number, &claimed, &dead).await;
        let filter = DeadFilter { reference: Some(name.clone()), ..DeadFilter::default() };
        let letter = stage.dead_letters_where(&filter).await[0].number;
        before::<F>(&mut lane, number, round + 16).await;
        lane.replay(letter, &waiting(&name), None).await.expect("replay");
        assert_eq!(other.due(number, 10).await.expect("due").len(), 1, "replay, {round}");
        begin::<F>(&mut other, number, &[waiting_key(&name, 0)]).await;
        other.commit(&Writes { finished: vec![name.clone()], ..Writes::default() }).await.expect("commit");
        before::<F>(&mut lane, number, round + 20).await;
        assert_eq!(lane.forget(&name, &name).await.expect("forget"), Forgotten::Done);
        assert_eq!(other.look(number, &claimed).await.expect("look").claims, [Claim::Fresh], "forget, {round}");
        before::<F>(&mut lane, number, round + 24).await;
        let setup = Setup { name: format!("{round}.sql"), sql: format!("insert into effects values ('{round}')") };
        lane.migrate(&[setup]).await.expect("migrate");
        assert_eq!(stage.count(&name).await, 1, "migrate, {round}");
        F::age(&stage.database, HOUR * 2).await;
        before::<F>(&mut lane, number, round + 28).await;
        lane.sweep(number, HOUR, 100).await.expect("sweep");
        assert_eq!(
            other.look(number, &[key(&format!("round {}", round + 4))]).await.expect("look").claims,
            [Claim::Fresh],
            "sweep, {round}"
        );
    }
}

/// The stores of this suite lie on this machine, so the two clocks agree; a session's time zone does not move it.
async fn the_clock<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let lane = stage.lane().await;
    let (before, now) = (Timestamp::now(), lane.now());
    let apart = before.since(now).max(now.since(before));
    assert!(apart < SOON, "{now} instead of {before}");
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(lane.now() > now, "it goes");
    let handle = stage.semel.now().await.expect("now");
    assert!(handle.since(now) < SOON && now.since(handle) < SOON);
}
