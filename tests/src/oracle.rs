//! Counts what was booked and says what is wrong. Knows the shop's own tables, and nothing of semel's.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::Base;
use crate::payments::{Bad, Payments};

/// What a run must never leave behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// A good payment is not booked.
    Lost(String),
    /// A payment is booked this often.
    Doubled(String, usize),
    /// Something is booked that must not be: a refused message, or another content of a payment.
    Foreign(String, i64),
    /// The balance of an account, kept by a second statement of the same transaction, is not the sum of its payments.
    Sum(String, i64, i64),
    /// A bad message is set aside this often, and not once.
    SetAside(Bad, usize),
    /// A message is set aside that is not bad, with these words.
    Blamed(Bad, String),
}

/// What is wrong when everything has been processed.
///
/// # Panics
///
/// If the tables cannot be read.
pub async fn at_the_end(base: &Base, payments: &Payments) -> Vec<Violation> {
    let books = Books::read(base).await;
    let mut found = books.wrong_at_any_time(payments);
    let lost = payments.good.keys().filter(|id| !books.ledger.contains_key(*id));
    found.extend(lost.cloned().map(Violation::Lost));
    found
}

/// What is wrong already, though not everything has been processed: nothing may ever be booked twice.
///
/// # Panics
///
/// If the tables cannot be read.
pub async fn at_any_time(base: &Base, payments: &Payments) -> Vec<Violation> {
    Books::read(base).await.wrong_at_any_time(payments)
}

/// What is wrong with the dead letters.
pub fn set_aside(letters: &[(Bad, String)], payments: &Payments) -> Vec<Violation> {
    let mut found = Vec::new();
    for bad in &payments.bad {
        let times = letters.iter().filter(|(letter, _)| letter == bad).count();
        if times != 1 {
            found.push(Violation::SetAside(bad.clone(), times));
        }
    }
    for (letter, words) in letters {
        if !payments.bad.contains(letter) {
            found.push(Violation::Blamed(letter.clone(), words.clone()));
        }
    }
    found
}

/// What is booked, at one moment.
struct Books {
    ledger: BTreeMap<String, Vec<(String, i64)>>,
    balances: BTreeMap<String, i64>,
}

impl Books {
    /// With one statement, which sees one moment: the server may still be committing what a dead program sent.
    async fn read(base: &Base) -> Self {
        const ALL: &str = "select 'paid', payment_id, account, amount from ledger
            union all select 'total', '', account, total from balance";
        let rows: Vec<(String, String, String, i64)> = base.rows(ALL).await.expect("the books");
        let mut books = Books { ledger: BTreeMap::new(), balances: BTreeMap::new() };
        for (what, id, account, amount) in rows {
            match &*what {
                "paid" => books.ledger.entry(id).or_default().push((account, amount)),
                _ => drop(books.balances.insert(account, amount)),
            }
        }
        books
    }

    fn wrong_at_any_time(&self, payments: &Payments) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
        for (id, rows) in &self.ledger {
            for (account, amount) in rows {
                *sums.entry(account).or_default() += amount;
                let good = payments.good.get(id).is_some_and(|good| good.amount == *amount && good.account == *account);
                if !good {
                    found.push(Violation::Foreign(id.clone(), *amount));
                }
            }
            if rows.len() > 1 {
                found.push(Violation::Doubled(id.clone(), rows.len()));
            }
        }
        let accounts: BTreeSet<&str> =
            sums.keys().copied().chain(self.balances.keys().map(|account| &**account)).collect();
        for account in accounts {
            let balance = self.balances.get(account).copied().unwrap_or(0);
            let sum = sums.get(account).copied().unwrap_or(0);
            if balance != sum {
                found.push(Violation::Sum(account.to_owned(), balance, sum));
            }
        }
        found
    }
}
