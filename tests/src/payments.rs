//! Payments as tills write them: repeated, late, contradictory, broken; and what must become of them.

use std::collections::BTreeMap;

use serde_json::json;

use crate::random::Random;

const ACCOUNTS: [&str; 6] = ["amara", "bruno", "chiara", "dmitri", "elif", "farid"];

/// What is to be booked, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// The number that the till gave it.
    pub id: String,
    /// Whose.
    pub account: String,
    /// In cents.
    pub amount: i64,
}

/// A line that must end as a dead letter, with nothing booked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bad {
    /// Why.
    pub reason: String,
    /// The number, where it has one.
    pub id: Option<String>,
}

/// Lines of a file, and what must become of them.
#[derive(Debug, Clone, Default)]
pub struct Payments {
    /// One message a line.
    pub lines: Vec<String>,
    /// Every distinct payment that must be booked.
    pub good: BTreeMap<String, Payment>,
    /// Every message that must be set aside.
    pub bad: Vec<Bad>,
}

impl Payments {
    /// `count` distinct payments; every tenth is a double tap, and every twelfth comes again at the end.
    pub fn plain(count: u64, random: &mut Random) -> Self {
        Self::named("pay", count, random)
    }

    /// The same, with another beginning of the numbers.
    pub fn named(prefix: &str, count: u64, random: &mut Random) -> Self {
        let mut payments = Payments::default();
        for number in 0..count {
            let line = payments.add(&format!("{prefix}-{number}"), "payment.requested", random);
            if number % 10 == 9 {
                payments.lines.push(line);
            }
        }
        for line in payments.lines.clone().iter().step_by(12) {
            payments.lines.push(line.clone());
        }
        payments
    }

    /// About sixty lines with everything that can come: double taps, late repeats, a conflict, lines that are refused, a
    /// payment that never succeeds, and payments that fail at first and so are deferred, with others of their account
    /// behind them.
    pub fn mixed(random: &mut Random) -> Self {
        let mut payments = Payments::plain(34, random);
        let late: Vec<String> = payments.lines.iter().take(4).cloned().collect();
        payments.insert(12, r#"{"payment_id":"pay-cut","type":"payment.req"#.to_owned(), "undecodable", None);
        let line = r#"{"type":"payment.requested","account":"amara","amount":5}"#;
        payments.insert(19, line.to_owned(), "missing-id", None);
        let conflict = payment_line("pay-7", "payment.requested", &payments.good["pay-7"].account, 1_000_007);
        payments.insert(25, conflict, "conflict", Some("pay-7"));
        let unknown = payment_line("pay-refund", "payment.refunded", "bruno", 1_000_008);
        payments.insert(29, unknown, "no-handler", Some("pay-refund"));
        let impossible = payment_line("pay-impossible", "payment.impossible", "nobody", 1_000_009);
        payments.insert(31, impossible, "failed", Some("pay-impossible"));
        // Late in the file, so that a position can be stored before them.
        for (number, account) in ["gesa", "hugo", "ines"].into_iter().enumerate() {
            let line = payments.add_for(&format!("pay-flaky-{number}"), "payment.flaky", account, random);
            payments.lines.push(line);
            payments.add_for(&format!("pay-behind-{number}"), "payment.requested", account, random);
        }
        payments.lines.extend(late);
        payments
    }

    /// The file.
    pub fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Add a good payment of some account, and return its line.
    pub fn add(&mut self, id: &str, kind: &str, random: &mut Random) -> String {
        let account = ACCOUNTS[random.below(ACCOUNTS.len() as u64) as usize];
        self.add_for(id, kind, account, random)
    }

    /// Add a good payment, and return its line.
    pub fn add_for(&mut self, id: &str, kind: &str, account: &str, random: &mut Random) -> String {
        let amount = 1 + random.below(10_000) as i64;
        let line = payment_line(id, kind, account, amount);
        self.lines.push(line.clone());
        self.good.insert(id.to_owned(), Payment { id: id.to_owned(), account: account.to_owned(), amount });
        line
    }

    fn insert(&mut self, at: usize, line: String, reason: &str, id: Option<&str>) {
        self.lines.insert(at, line);
        self.bad.push(Bad { reason: reason.to_owned(), id: id.map(str::to_owned) });
    }
}

/// One line.
pub fn payment_line(id: &str, kind: &str, account: &str, amount: i64) -> String {
    json!({ "payment_id": id, "type": kind, "account": account, "amount": amount }).to_string()
}
