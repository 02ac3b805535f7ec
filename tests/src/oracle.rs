//! Counts what was booked and says what is wrong. Knows the shop's own tables, and nothing of semel's.

use std::collections::BTreeMap;

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
    let mut found = at_any_time(base, payments).await;
    let booked = ledger(base).await;
    found.extend(payments.good.keys().filter(|id| !booked.contains_key(*id)).map(|id| Violation::Lost(id.clone())));
    found
}

/// What is wrong already, though not everything has been processed: nothing may ever be booked twice.
///
/// # Panics
///
/// If the tables cannot be read.
pub async fn at_any_time(base: &Base, payments: &Payments) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    for (id, rows) in ledger(base).await {
        for (account, amount) in &rows {
            *sums.entry(account.clone()).or_default() += amount;
            let good = payments.good.get(&id).is_some_and(|good| good.amount == *amount && good.account == *account);
            if !good {
                found.push(Violation::Foreign(id.clone(), *amount));
            }
        }
        if rows.len() > 1 {
            found.push(Violation::Doubled(id, rows.len()));
        }
    }
    let balances: Vec<(String, i64)> = base.rows("select account, total from balance").await.expect("the balances");
    let balances: BTreeMap<String, i64> = balances.into_iter().collect();
    for account in sums.keys().chain(balances.keys()) {
        let of = |totals: &BTreeMap<String, i64>| totals.get(account).copied().unwrap_or(0);
        let violation = Violation::Sum(account.clone(), of(&balances), of(&sums));
        if of(&balances) != of(&sums) && !found.contains(&violation) {
            found.push(violation);
        }
    }
    found
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

async fn ledger(base: &Base) -> BTreeMap<String, Vec<(String, i64)>> {
    let rows: Vec<(String, String, i64)> =
        base.rows("select payment_id, account, amount from ledger").await.expect("the ledger");
    let mut ledger: BTreeMap<String, Vec<(String, i64)>> = BTreeMap::new();
    for (id, account, amount) in rows {
        ledger.entry(id).or_default().push((account, amount));
    }
    ledger
}
