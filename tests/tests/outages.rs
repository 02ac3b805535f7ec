//! The database goes away and comes back, or the way to it does, while the program works: it goes on by itself, every
//! payment is booked once, and nothing is blamed on the payments.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use semel_tests::base::{Base, Connected, Kind};
use semel_tests::freezer::Freezer;
use semel_tests::oracle;
use semel_tests::payments::Payments;
use semel_tests::postgres::{self, PrivateServer};
use semel_tests::program::Running;
use semel_tests::proxy::{Counts, Proxy};
use semel_tests::random::Random;
use semel_tests::shop::{BOOKED, LIMIT, Rules, Shop, Summary, TRIES};

const PROGRAM: &str = env!("CARGO_BIN_EXE_semel-probed");

/// Every transaction takes some milliseconds, so that there is a middle in which something can happen.
fn slowly() -> Rules {
    Rules { max_batch: 8, first: "select pg_sleep(0.01) from (select from messages limit 1) once", ..Rules::default() }
}

fn load(count: u64) -> Payments {
    Payments::plain(count, &mut Random::seeded(count))
}

/// What must hold at the end of a run through an outage: everything is booked once, in one run, at the first try.
async fn ends_well(shop: &Shop, running: Running) {
    let summary = Summary::of(&running.wait(LIMIT).await);
    let good = shop.payments.good.len() as u64;
    let Summary { received, processed, duplicates, conflicts, dead_lettered, deferred } = summary;
    assert_eq!((processed, conflicts, dead_lettered, deferred), (good, 0, 0, 0), "{summary:?}");
    assert_eq!((received, duplicates), (shop.payments.lines.len() as u64, received - good), "{summary:?}");
    assert_eq!(shop.violations().await, []);
    assert_eq!(shop.base.number(TRIES).await, 1, "an outage is no failed try");
}

// ---- the server

async fn on_a_server_of_its_own(count: u64) -> Option<(PrivateServer, Shop)> {
    let server = postgres::server().await?;
    let base = Base::Postgres(server.database().await);
    Some((server, Shop::on(base, PROGRAM, &slowly(), load(count))))
}

#[tokio::test]
async fn three_crashes_of_the_server_in_mid_load_cost_nothing() {
    let Some((server, shop)) = on_a_server_of_its_own(2_000).await else { return };
    let running = shop.run().spawn();
    let mut booked = 0;
    for _ in 0..3 {
        booked = shop.wait_until_booked(booked + 200, &running).await;
        server.restart_immediate().await;
    }
    assert!(booked < 2_000, "the crashes came too late");
    ends_well(&shop, running).await;
}

/// The process id of a backend that works for semel at this moment.
async fn a_backend(base: &Base) -> i64 {
    const WORKING: &str = "select pid::bigint from pg_stat_activity where datname = current_database()
        and application_name = 'semel' and state <> 'idle' order by random() limit 1";
    base.wait_for_number(WORKING, 1, LIMIT).await
}

#[tokio::test]
async fn sessions_that_an_administrator_ends_cost_nothing() {
    let Some((_server, shop)) = on_a_server_of_its_own(1_500).await else { return };
    let running = shop.run().spawn();
    let mut booked = 0;
    for _ in 0..10 {
        booked = shop.wait_until_booked(booked + 40, &running).await;
        let backend = a_backend(&shop.base).await;
        shop.base.execute(&format!("select pg_terminate_backend({backend})")).await;
    }
    assert!(booked < 1_500, "the ends came too late");
    ends_well(&shop, running).await;
}

#[tokio::test]
async fn backends_that_are_killed_and_take_the_server_down_cost_nothing() {
    let Some((_server, shop)) = on_a_server_of_its_own(1_500).await else { return };
    let running = shop.run().spawn();
    let mut booked = 0;
    for _ in 0..2 {
        booked = shop.wait_until_booked(booked + 200, &running).await;
        let backend = a_backend(&shop.base).await;
        // The server answers the death of one backend with that of all, and recovers.
        let killed = std::process::Command::new("sh").arg("-c").arg(format!("kill -9 {backend}")).status();
        assert!(killed.is_ok_and(|status| status.success()), "the backend had this process id a moment ago");
    }
    assert!(booked < 1_500, "the kills came too late");
    ends_well(&shop, running).await;
}

// ---- the way to it

/// A shop whose program reaches PostgreSQL through a proxy.
async fn behind_a_proxy(count: u64) -> Option<(Proxy, Shop)> {
    let base = Base::new(Kind::Postgres).await?;
    let proxy = Proxy::start(base.postgres().address()).await;
    let store = base.postgres().url_through(proxy.addr());
    Some((proxy, Shop::on(base, PROGRAM, &slowly(), load(count)).by_way_of(&store, &slowly())))
}

/// Start the program, and do something when it is in mid-load.
async fn in_mid_load(shop: &Shop, act: impl FnOnce()) -> Running {
    let running = shop.run().spawn();
    shop.wait_until_booked(50, &running).await;
    act();
    running
}

async fn commits_go_wrong(plan: impl Fn(&Proxy), fired: impl Fn(&Counts) -> usize, times: usize) -> Option<()> {
    let (proxy, shop) = behind_a_proxy(600).await?;
    let running = in_mid_load(&shop, || plan(&proxy)).await;
    ends_well(&shop, running).await;
    assert_eq!(fired(&proxy.counts()), times, "{:?}", proxy.counts());
    Some(())
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_not_done_twice() {
    commits_go_wrong(|proxy| proxy.swallow_commit_answers(1), |counts| counts.swallowed_commits, 1).await;
}

#[tokio::test]
async fn five_commits_whose_answers_are_lost_are_not_done_twice() {
    commits_go_wrong(|proxy| proxy.swallow_commit_answers(5), |counts| counts.swallowed_commits, 5).await;
}

#[tokio::test]
async fn commits_that_do_not_reach_the_server_are_done_again() {
    commits_go_wrong(|proxy| proxy.cut_before_commit(5), |counts| counts.cut_before_commit, 5).await;
}

#[tokio::test]
async fn commits_that_the_server_still_works_on_are_waited_for() {
    commits_go_wrong(|proxy| proxy.cut_while_committing(5), |counts| counts.cut_while_committing, 5).await;
}

#[tokio::test]
async fn all_kinds_of_lost_commits_in_a_row_leave_every_payment_booked_once() {
    let plan = |proxy: &Proxy| {
        for _ in 0..4 {
            proxy.swallow_commit_answers(1);
            proxy.cut_before_commit(1);
            proxy.cut_while_committing(1);
        }
    };
    let fired = |counts: &Counts| counts.swallowed_commits + counts.cut_before_commit + counts.cut_while_committing;
    commits_go_wrong(plan, fired, 12).await;
}

/// The transaction whose outcome is unknown claims a new payment and meets a known one. The claim that is made again finds
/// both; only one of them was its own.
#[tokio::test]
async fn a_known_repeat_beside_a_lost_commit_answer_is_still_counted_as_known() {
    let Some(base) = Base::new(Kind::Postgres).await else { return };
    let proxy = Proxy::start(base.postgres().address()).await;
    let store = base.postgres().url_through(proxy.addr());
    let first = "select pg_sleep(0.5) from messages where id = 'pay-slow'";
    let rules = Rules { lanes: 1, first, ..Rules::default() };
    let random = &mut Random::seeded(12);
    let mut payments = Payments::default();
    let known = payments.add("pay-known", "payment.requested", random);
    let shop = Shop::on(base, PROGRAM, &rules, payments).by_way_of(&store, &rules);
    shop.work_off(&[]).await;
    let mut shop = shop;
    // Batches grow from one message to two: the second one holds the slow payment and the known one.
    shop.payments.add("pay-first", "payment.requested", random);
    shop.payments.add("pay-slow", "payment.requested", random);
    shop.payments.lines.push(known);
    shop.write("payments.jsonl", &shop.payments.text());
    let running = shop.run().spawn();
    shop.wait_until_booked(2, &running).await;
    proxy.swallow_commit_answers(1);
    let summary = Summary::of(&running.wait(LIMIT).await);
    assert_eq!(proxy.counts().swallowed_commits, 1, "{:?}", proxy.counts());
    assert_eq!((summary.processed, summary.duplicates), (2, 1), "{summary:?}");
    assert_eq!(shop.violations().await, []);
}

#[tokio::test]
async fn a_program_that_is_killed_before_it_knows_of_its_commit_leaves_every_payment_booked_once() {
    for times in [1, 3] {
        let Some((proxy, shop)) = behind_a_proxy(300).await else { return };
        let running = in_mid_load(&shop, || proxy.swallow_commit_answers(times)).await;
        let swallowed = async {
            while proxy.counts().swallowed_commits < times {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LIMIT, swallowed).await.expect("there are commits to swallow");
        running.kill9().await;
        assert_eq!(oracle::at_any_time(&shop.base, &shop.payments).await, []);
        shop.work_off(&[]).await;
        assert_eq!(shop.violations().await, []);
    }
}

#[tokio::test]
async fn connections_that_are_cut_again_and_again_cost_nothing() {
    let Some((proxy, shop)) = behind_a_proxy(1_000).await else { return };
    let running = shop.run().spawn();
    let (mut booked, mut cut) = (0, 0);
    for _ in 0..8 {
        booked = shop.wait_until_booked(booked + 40, &running).await;
        cut += proxy.cut_all().await;
    }
    assert!(cut >= 8, "{:?}", proxy.counts());
    ends_well(&shop, running).await;
}

/// Wait as long as an outage is to last. Not a wait for something that happens: its length is what is tested.
async fn for_a_while(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

#[tokio::test]
async fn a_network_that_swallows_everything_for_a_while_costs_nothing() {
    let Some((proxy, shop)) = behind_a_proxy(600).await else { return };
    let running = in_mid_load(&shop, || proxy.black_hole(true)).await;
    for_a_while(3.0).await;
    assert!(proxy.counts().held_messages > 0, "{:?}", proxy.counts());
    proxy.black_hole(false);
    ends_well(&shop, running).await;
}

/// A stop in the middle of that: the grace is all that it waits.
#[tokio::test]
async fn a_stop_while_the_network_swallows_everything_ends_after_the_grace() {
    let Some((proxy, shop)) = behind_a_proxy(600).await else { return };
    let rules = Rules { more: "grace = \"1s\"", ..slowly() };
    let store = shop.base.postgres().url_through(proxy.addr());
    let shop = shop.by_way_of(&store, &rules);
    let running = in_mid_load(&shop, || proxy.black_hole(true)).await;
    for_a_while(1.0).await;
    assert!(proxy.counts().held_messages > 0, "{:?}", proxy.counts());
    let asked = Instant::now();
    running.sigterm();
    let finished = running.wait(LIMIT).await;
    // A supervisor that gives ten seconds must not have to kill it.
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}: {finished}", asked.elapsed());
    assert!(!finished.stderr.contains("panicked"), "{finished}");
    // Whether the position could be stored or not, the next run knows what was done.
    proxy.black_hole(false);
    shop.work_off(&[]).await;
    assert_eq!(shop.violations().await, []);
}

/// Nothing ever comes on the connections that were open, and new ones work: a failover without a goodbye.
#[tokio::test]
async fn connections_that_fall_silent_for_ever_are_given_up() {
    let Some(base) = Base::new(Kind::Postgres).await else { return };
    let freezer = Freezer::start(base.postgres().address()).await;
    let rules = Rules { more: "timeout = \"1s\"", ..slowly() };
    let store = base.postgres().url_through(freezer.addr());
    // One account, and so one lane: the connection on which the books are kept lies idle most of the time.
    let mut random = Random::seeded(13);
    let mut payments = Payments::default();
    for number in 0..1_000 {
        payments.add_for(&format!("pay-{number}"), "payment.requested", "jana", &mut random);
    }
    let shop = Shop::on(base, PROGRAM, &rules, payments).by_way_of(&store, &rules);
    let running = in_mid_load(&shop, || ()).await;
    const CONNECTIONS: &str =
        "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'semel'";
    shop.base.wait_for_number(CONNECTIONS, 2, LIMIT).await;
    freezer.freeze();
    // Whether a handler is slow or its connection silent cannot be told then, so a try may have been counted.
    assert_eq!(Summary::of(&running.wait(LIMIT).await).processed, 1_000);
    assert_eq!(shop.violations().await, []);
    assert!(freezer.frozen() >= 2, "{} were open", freezer.frozen());
}

/// The handler's time limit passes while nothing gets through: that says nothing of the handler.
#[tokio::test]
async fn a_network_that_swallows_everything_for_longer_than_a_handler_may_take_blames_no_payment() {
    let Some((proxy, shop)) = behind_a_proxy(600).await else { return };
    let rules = Rules { immediate: 0, deferred: "[]", more: "timeout = \"1s\"", ..slowly() };
    let store = shop.base.postgres().url_through(proxy.addr());
    let shop = shop.by_way_of(&store, &rules);
    let running = in_mid_load(&shop, || proxy.black_hole(true)).await;
    for_a_while(3.0).await;
    assert!(proxy.counts().held_messages > 0, "{:?}", proxy.counts());
    proxy.black_hole(false);
    ends_well(&shop, running).await;
}

#[tokio::test]
async fn an_outage_of_some_seconds_sets_nothing_aside_and_counts_no_try() {
    let Some((proxy, shop)) = behind_a_proxy(600).await else { return };
    let running = in_mid_load(&shop, || proxy.refuse_connections(true)).await;
    proxy.cut_all().await;
    running.wait_for_line("the store does not take messages", LIMIT).await;
    for_a_while(4.0).await;
    let counts = proxy.counts();
    // It tries again, but not in a tight loop.
    assert!((2..200).contains(&counts.refused_connections), "{counts:?}");
    assert_eq!(shop.base.number(TRIES).await, 1);
    proxy.refuse_connections(false);
    running.wait_for_line("the store takes messages again", LIMIT).await;
    let said = running.stderr();
    ends_well(&shop, running).await;
    assert!(said.matches("does not take messages").count() <= 2, "it says so once, and not once a try: {said}");
}

#[tokio::test]
async fn a_lost_connection_during_deferrals_and_dead_letters_changes_nothing_of_them() {
    let Some(base) = Base::new(Kind::Postgres).await else { return };
    let proxy = Proxy::start(base.postgres().address()).await;
    let store = base.postgres().url_through(proxy.addr());
    let rules = Rules { max_batch: 4, ..slowly() };
    let payments = Payments::mixed(&mut Random::seeded(11));
    let shop = Shop::on(base, PROGRAM, &rules, payments).by_way_of(&store, &rules);
    assert_eq!(shop.semel(&["migrate"]).run(LIMIT).await.code(), Some(0));
    // Every third COMMIT goes wrong, whosever it is.
    for _ in 0..8 {
        proxy.swallow_commit_answers(1);
        proxy.cut_before_commit(1);
        proxy.cut_while_committing(1);
    }
    shop.work_off(&[]).await;
    let counts = proxy.counts();
    assert_eq!(counts.swallowed_commits + counts.cut_before_commit + counts.cut_while_committing, 24, "{counts:?}");
    assert_eq!(shop.violations().await, []);
}

// ---- no way to it at all

const PASSWORD: &str = "hunter2-and-more";

/// At start an outage is an error: nobody knows yet whether the address is right.
async fn refuses_to_start(store: &str, sentence: &str) {
    let base = Base::new(Kind::Sqlite).await.expect("files need no server");
    let shop = Shop::on(base, PROGRAM, &Rules::default(), load(1)).by_way_of(store, &Rules::default());
    for arguments in [&["run"][..], &["run", "--json"], &["migrate"], &["status"]] {
        let finished = shop.semel(arguments).env("SEMEL_LOG", "debug").run(LIMIT).await;
        assert_eq!(finished.code(), Some(1), "{arguments:?}: {finished}");
        assert!(finished.stderr.contains(sentence), "{arguments:?}: {finished}");
        assert!(!finished.to_string().contains("hunter2"), "{arguments:?}: the password is in {finished}");
        assert!(!finished.stderr.contains("panicked"), "{finished}");
    }
}

#[tokio::test]
async fn where_nobody_listens_it_does_not_start_and_says_so_without_the_password() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port();
    let store = format!("postgres://semel:{PASSWORD}@127.0.0.1:{port}/shop");
    refuses_to_start(&store, &format!("127.0.0.1:{port}")).await;
}

#[tokio::test]
async fn where_connections_are_closed_at_once_it_does_not_start_and_says_so_without_the_password() {
    let proxy = Proxy::start("127.0.0.1:1".parse().expect("an address")).await;
    proxy.refuse_connections(true);
    let store = format!("postgres://semel:{PASSWORD}@{}/shop", proxy.addr());
    refuses_to_start(&store, "check that it runs and can be reached").await;
    assert!(proxy.counts().refused_connections >= 4);
}

#[tokio::test]
async fn where_nobody_answers_it_does_not_start_and_says_so_without_the_password() {
    let Some(base) = Base::new(Kind::Postgres).await else { return };
    let proxy = Proxy::start(base.postgres().address()).await;
    proxy.black_hole(true);
    let store = format!("postgres://semel:{PASSWORD}@{}/shop?connect_timeout=1", proxy.addr());
    refuses_to_start(&store, "did not answer within 1 s").await;
}

// ---- SQLite

/// Take the write lock of an SQLite file, as another program. Its turn does not come by itself while semel takes one turn
/// after the other: it must ask in the right millisecond.
async fn lock(base: &Base) -> Connected {
    let mut other = base.connect().await.expect("the file is there");
    other.execute("pragma busy_timeout = 0").await.expect("a pragma");
    let taken = async {
        while other.execute("begin immediate").await.is_err() {
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
    };
    tokio::time::timeout(LIMIT, taken).await.expect("there are moments between two transactions");
    other
}

#[tokio::test]
async fn on_sqlite_another_program_that_writes_for_seconds_is_waited_for() {
    // Less than semel's own patience for a lock, and more.
    for seconds in [2.0, 6.5] {
        let rules = Rules { max_batch: 2, ..Rules::default() };
        let shop = Shop::open(Kind::Sqlite, PROGRAM, &rules, load(1_500)).await.expect("files need no server");
        let running = shop.run().spawn();
        shop.wait_until_booked(20, &running).await;
        let mut other = lock(&shop.base).await;
        let before = shop.base.number(BOOKED).await;
        assert!(before < 1_500, "the lock came too late");
        for_a_while(seconds).await;
        assert_eq!(shop.base.number(BOOKED).await, before, "somebody else holds the lock");
        other.execute("rollback").await.expect("the end");
        other.close().await;
        ends_well(&shop, running).await;
    }
}
