//! The main job, as the README shows it: the tea shop's payments, from a copy of the example in a fresh directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use semel_tests::cli_world::{Counts, Kind, LIMIT, World, as_user, fields, objects, sqlite_rows, until};
use semel_tests::on_both_stores;
use semel_tests::program::{Finished, Program};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/tea-shop");

/// What the page of the example says of the first run.
const FIRST: Counts = Counts { processed: 24, duplicates: 10, conflicts: 1, dead_lettered: 2, deferred: 0, ignored: 0 };

/// A copy of the example.
struct Shop<'w>(&'w World);

impl<'w> Shop<'w> {
    fn open(world: &'w World) -> Self {
        for name in ["semel.toml", "schema.sql", "payments.jsonl"] {
            world.write(&format!("shop/{name}"), fs::read(format!("{EXAMPLE}/{name}")).expect("the example is there"));
        }
        Self(world)
    }

    fn directory(&self) -> PathBuf {
        self.0.path("shop")
    }

    /// A command in the shop's directory. On SQLite the store is the one that the file names; on PostgreSQL `--store`
    /// names it, as the example's page does it.
    fn semel(&self, words: &[&str]) -> Program {
        let program = self.0.semel(words).current_dir(self.directory());
        match self.0.kind() {
            Kind::Sqlite => program,
            Kind::Postgres => program.args(["--store", &self.0.address()]),
        }
    }

    async fn done(&self, words: &[&str]) -> Finished {
        let finished = self.semel(words).run(LIMIT).await;
        assert_eq!(finished.code(), Some(0), "{words:?}: {finished}");
        finished
    }

    async fn run(&self, options: &[&str]) -> Counts {
        Counts::of(&self.done(&[&["run", "semel.toml", "--json"], options].concat()).await)
    }

    /// The ledger, asked without semel: `payment|account|amount`.
    async fn ledger(&self, query: &str) -> Vec<String> {
        match self.0.kind() {
            // The file that the configuration names, beside it.
            Kind::Sqlite => {
                let path = self.directory().join("tea-shop.db");
                sqlite_rows(&path, query).await
            }
            Kind::Postgres => self.0.store().rows(query).await,
        }
    }

    /// The files are changed: other text in place of this.
    fn edit(&self, name: &str, from: &str, to: &str) {
        let path = self.directory().join(name);
        let text = fs::read_to_string(&path).expect("the file is there");
        assert_eq!(text.matches(from).count(), 1, "{name}: {from}");
        fs::write(path, text.replace(from, to)).expect("the file can be written");
    }
}

const BOOKED: &str = "select payment_id, account, amount from ledger order by payment_id, account, amount";

/// What the ledger must be, read from the payments without semel: the first line of each payment that is one.
fn expected_ledger() -> Vec<String> {
    let text = fs::read_to_string(format!("{EXAMPLE}/payments.jsonl")).expect("the example is there");
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        let Ok(payment) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let Some(id) = payment["payment_id"].as_str() else { continue };
        let row = format!("{id}|{}|{}", payment["account"].as_str().expect("an account"), payment["amount"]);
        first.entry(id.to_owned()).or_insert(row);
    }
    first.into_values().collect()
}

/// The commands that were proposed, one a line, each behind what it is good for.
fn hints(finished: &Finished) -> Vec<&str> {
    finished.stderr.lines().filter_map(|line| line.rsplit_once(":  ")).map(|(_, command)| command).collect()
}

/// Paste a command into a shell.
async fn paste(shop: &Shop<'_>, command: &str) -> Finished {
    let finished = Program::new("sh").args(["-c", command]).current_dir(shop.directory()).run(LIMIT).await;
    assert_eq!(finished.code(), Some(0), "{command}: {finished}");
    finished
}

/// stdout is the summary and nothing else; what to try next goes to stderr, and works as it stands.
async fn the_first_run_prints_its_summary_and_two_hints_that_can_be_pasted(world: World) {
    let shop = Shop::open(&world);
    let finished = shop.done(&["run", "semel.toml"]).await;
    let line = finished.stdout.strip_suffix('\n').expect("a whole line");
    let (counts, seconds) = line.rsplit_once(" · ").expect("the time is last");
    assert_eq!(
        counts,
        "payments   37 received · 24 processed · 10 duplicates · 1 conflict · 2 dead-lettered · 0 deferred"
    );
    let seconds = seconds.strip_suffix(" s").and_then(|text| text.parse::<f64>().ok());
    assert!(seconds.is_some_and(|seconds| seconds < 10.0), "{line}");

    let commands = hints(&finished);
    assert_eq!(commands.len(), 2, "{finished}");
    let listed = paste(&shop, commands[0]).await;
    assert_eq!(listed.stdout.lines().count(), 1 + 3, "a head and the three: {listed}");
    let told = paste(&shop, commands[1]).await;
    assert!(told.stdout.starts_with("payments: pay-1007 was processed"), "the conflict tells the best story: {told}");

    // Nothing was set aside by the second run, so other commands are proposed. They work as well.
    let again = shop.done(&["run", "semel.toml"]).await;
    let commands = hints(&again);
    assert_eq!(commands.len(), 2, "{again}");
    assert!(paste(&shop, commands[0]).await.stdout.contains("24"), "{again}");
    assert!(paste(&shop, commands[1]).await.stdout.contains("37 duplicates"), "{again}");
}

async fn json_is_one_object_and_all_that_is_printed(world: World) {
    let shop = Shop::open(&world);
    let finished = shop.done(&["run", "semel.toml", "--json"]).await;
    assert_eq!(Counts::of(&finished), FIRST);
    assert_eq!((finished.stdout.lines().count(), &*finished.stderr), (1, ""), "{finished}");
}

async fn a_second_run_finds_nothing_new_and_reading_it_all_again_finds_only_duplicates(world: World) {
    let shop = Shop::open(&world);
    assert_eq!(shop.run(&[]).await, FIRST);
    assert_eq!(shop.ledger(BOOKED).await, expected_ledger());
    assert_eq!(shop.run(&[]).await, Counts::default());
    assert_eq!(shop.run(&["--from-start"]).await, Counts::duplicates(37));
    assert_eq!(shop.run(&["--from-start"]).await, Counts::duplicates(37));
    assert_eq!(shop.ledger(BOOKED).await, expected_ledger(), "the ledger is the same as before");
    let sums = shop.ledger("select count(*), count(distinct payment_id), sum(amount) from ledger").await;
    assert_eq!(sums, ["24|24|34930"], "as the page says");

    world.append(
        "shop/payments.jsonl",
        "{\"payment_id\":\"pay-1025\",\"type\":\"payment.requested\",\"account\":\"mo\",\"amount\":1}\n",
    );
    assert_eq!(shop.run(&[]).await, Counts::processed(1), "only what was added");
}

/// The page's other commands.
async fn status_explain_and_dead_list_tell_what_the_page_says(world: World) {
    let shop = Shop::open(&world);
    shop.run(&[]).await;
    let status = shop.done(&["status", "-f", "semel.toml"]).await.stdout;
    let row: Vec<&str> = status.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(row[..4], ["payments", "24", "0", "0"], "{status}");
    for part in ["1 conflict", "1 missing-id", "1 undecodable"] {
        assert!(status.contains(part), "{status}");
    }
    let told = shop.done(&["explain", "pay-1007", "-f", "semel.toml"]).await.stdout;
    assert!(told.starts_with("payments: pay-1007 was processed; claimed 20"), "{told}");
    assert!(told.contains("payments: dead letter ") && told.contains(" (conflict), came 1 time, first 20"), "{told}");

    let listed = shop.done(&["dead", "list", "-f", "semel.toml"]).await.stdout;
    let head: Vec<&str> = listed.lines().next().expect("a head").split_whitespace().collect();
    assert_eq!(head, ["number", "consumer", "reason", "id", "seen", "last", "error"]);
    let mut rows: Vec<Vec<&str>> = listed.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    rows.sort_by_key(|row| row[2].to_owned());
    let named: Vec<&[&str]> = rows.iter().map(|row| &row[1..5]).collect();
    assert_eq!(
        named,
        [
            ["payments", "conflict", "pay-1007", "1"],
            ["payments", "missing-id", "payments.jsonl:24", "1"],
            ["payments", "undecodable", "payments.jsonl:29", "1"],
        ],
        "{listed}"
    );
    // A message without an id is found by its place.
    let found = shop.done(&["dead", "list", "-f", "semel.toml", "--id", "payments.jsonl:24", "--json"]).await.stdout;
    assert_eq!(found.lines().count(), 1, "{found}");
}

/// Positions and places belong to the file as the configuration names it, not to where the program was started.
async fn from_another_directory_it_is_the_same_store_the_same_position_and_the_same_dead_letters(world: World) {
    let shop = Shop::open(&world);
    assert_eq!(shop.run(&[]).await, FIRST);
    let file = shop.directory().join("semel.toml");
    let file = file.to_str().expect("text");
    fs::create_dir(world.path("elsewhere")).expect("a directory");
    for (place, named) in
        [("", "shop/semel.toml"), ("elsewhere", "../shop/semel.toml"), ("elsewhere", file), ("shop", "./semel.toml")]
    {
        let run =
            |words: &[&str]| shop.semel(&[&["run", named, "--json"], words].concat()).current_dir(world.path(place));
        assert_eq!(Counts::of(&run(&[]).run(LIMIT).await), Counts::default(), "{place:?} {named}");
        assert_eq!(Counts::of(&run(&["--from-start"]).run(LIMIT).await), Counts::duplicates(37), "{place:?} {named}");
    }
    assert_eq!(shop.ledger(BOOKED).await, expected_ledger());
    let listed = shop.done(&["dead", "list", "--json"]).await.stdout;
    let letters = objects(&listed);
    assert_eq!(letters.len(), 3, "no doubles: {listed}");
    assert!(letters.iter().all(|letter| letter["seen"] == 5), "each came five times: {listed}");
}

/// Where the address came from the environment, the hints lead to the same store without repeating it.
async fn the_hints_hide_a_password_and_work_where_the_variable_is_set(world: World) {
    // A password that nobody asks for: the server of the tests trusts everybody, and SQLite has none.
    let shop = Shop::open(&world);
    let address = match world.kind() {
        Kind::Sqlite => world.address(),
        Kind::Postgres => {
            as_user(&world.address(), &format!("{}:hunter2", world.store().value("select current_user").await))
        }
    };
    let finished =
        world.semel(["run", "semel.toml"]).current_dir(shop.directory()).env("SEMEL_STORE", &address).run(LIMIT).await;
    assert!(!finished.stderr.contains("hunter2"), "{finished}");
    let commands = hints(&finished);
    assert_eq!(commands.len(), 2, "{finished}");
    for command in commands {
        let pasted =
            Program::new("sh").args(["-c", command]).current_dir(shop.directory()).env("SEMEL_STORE", &address);
        let pasted = pasted.run(LIMIT).await;
        assert_eq!(pasted.code(), Some(0), "{command}: {pasted}");
        assert!(!pasted.stdout.contains("hunter2") && !pasted.stderr.contains("hunter2"), "{pasted}");
    }
}

/// One payment that cannot be booked: tried as the plan says, then set aside; those of its account wait behind it
/// meanwhile, and are booked after it. What was asked for and what came is all there.
async fn a_payment_whose_amount_is_no_number_is_tried_as_planned_and_then_set_aside(world: World) {
    let shop = Shop::open(&world);
    shop.edit(
        "semel.toml",
        "fingerprint = \"body\"",
        "fingerprint = \"body\"\nretry = { immediate = 1, deferred = [\"1s\"] }",
    );
    // PostgreSQL refuses the cast. SQLite reads the word as 0, which the check of the schema refuses.
    world.append(
        "shop/payments.jsonl",
        concat!(
            "{\"payment_id\":\"bad-1\",\"type\":\"payment.requested\",\"account\":\"amara\",\"amount\":\"abc\"}\n",
            "{\"payment_id\":\"behind-1\",\"type\":\"payment.requested\",\"account\":\"amara\",\"amount\":1}\n",
        ),
    );
    let first = shop.run(&[]).await;
    assert_eq!(first, Counts { deferred: 2, ..FIRST }, "the run does not wait for what is not due");

    let mut rest = Counts::default();
    until("the last try of the plan", async || {
        let counts = shop.run(&[]).await;
        rest = Counts {
            processed: rest.processed + counts.processed,
            dead_lettered: rest.dead_lettered + counts.dead_lettered,
            ..Counts::default()
        };
        rest.received() == 2
    })
    .await;
    assert_eq!(rest, Counts { processed: 1, dead_lettered: 1, ..Counts::default() });
    let mut expected = expected_ledger();
    expected.insert(0, "behind-1|amara|1".into());
    assert_eq!(shop.ledger(BOOKED).await, expected);

    let listed = shop.done(&["dead", "list", "--reason", "failed", "--json"]).await.stdout;
    let letter = &objects(&listed)[0];
    assert_eq!(
        (&letter["id"], &letter["attempts"], &letter["seen"]),
        (&"bad-1".into(), &3.into(), &1.into()),
        "{letter}"
    );
    assert_eq!(
        fields(letter),
        [
            "attempts",
            "bytes",
            "consumer",
            "coordinates",
            "error",
            "first",
            "id",
            "key",
            "kind",
            "last",
            "number",
            "reason",
            "seen",
        ]
    );
    assert_ne!(letter["error"], "", "{letter}");
    assert_eq!(shop.run(&["--from-start"]).await, Counts::duplicates(39), "all of it is known, the dead one as well");
}

/// Two of the program at once on one file and one store, as the page invites to.
async fn two_at_once_book_each_payment_once(world: World) {
    let shop = Shop::open(&world);
    let both = tokio::join!(shop.done(&["run", "semel.toml", "--json"]), shop.done(&["run", "semel.toml", "--json"]));
    let (one, two) = (Counts::of(&both.0), Counts::of(&both.1));
    assert_eq!(one.processed + two.processed, 24, "{one} {two}");
    assert!(one.received() <= 37 && two.received() <= 37 && one.received() + two.received() >= 37, "{one} {two}");
    assert_eq!(shop.ledger(BOOKED).await, expected_ledger());
    let listed = shop.done(&["dead", "list", "--json"]).await.stdout;
    assert_eq!(listed.lines().count(), 3, "{listed}");
    assert_eq!(shop.run(&["--from-start"]).await, Counts::duplicates(37));
    if world.kind() == Kind::Postgres {
        world.check_places().await;
    }
}

on_both_stores!(
    the_first_run_prints_its_summary_and_two_hints_that_can_be_pasted,
    json_is_one_object_and_all_that_is_printed,
    a_second_run_finds_nothing_new_and_reading_it_all_again_finds_only_duplicates,
    status_explain_and_dead_list_tell_what_the_page_says,
    from_another_directory_it_is_the_same_store_the_same_position_and_the_same_dead_letters,
    the_hints_hide_a_password_and_work_where_the_variable_is_set,
    a_payment_whose_amount_is_no_number_is_tried_as_planned_and_then_set_aside,
    two_at_once_book_each_payment_once,
);
