//! Careful mode (law 15): a message that kills the process ends as a dead letter, and innocents are not blamed.
//!
//! The message is handled alone, and its attempt is written down and committed just before its handler. An attempt that a dead process left
//! open is a crash; after `max_crashes` of them the message is a dead letter.

use crate::claim::ConsumerNumber;
use crate::instance::{Instance, Seen};
use crate::lanes::{Lanes, ask};
use crate::probe;
use crate::records::{Attempt, Records};
use crate::store::{Store, StoreError};
use std::sync::Arc;

/// Writes down that this process lives, and removes those that died. Whether there were any: then what they had in hand comes again, and
/// one of those messages may have been the cause.
pub(crate) async fn join<S: Store>(
    lanes: &Arc<Lanes<S>>,
    consumer: ConsumerNumber,
    me: &Instance,
) -> Result<bool, StoreError> {
    // First our own row: if we die as well, the next one finds it.
    ask!(lanes, lane => lane.beat(consumer, me));
    let all = ask!(lanes, lane => lane.instances(consumer));
    let mut dead: Vec<&Seen> = all.iter().filter(|seen| !seen.lives(me)).collect();
    if !dead.is_empty() {
        // One that ended well between being read and being looked for has removed its row before it went.
        let still = ask!(lanes, lane => lane.instances(consumer));
        dead.retain(|seen| still.iter().any(|other| other.instance.id == seen.instance.id));
    }
    for seen in &dead {
        ask!(lanes, lane => lane.remove_instance(consumer, &seen.instance.id));
    }
    Ok(!dead.is_empty())
}

/// Whether the handler may run for this message, and if so, its attempt is open now.
pub(crate) async fn open<S: Store>(
    lanes: &Arc<Lanes<S>>,
    consumer: ConsumerNumber,
    me: &Instance,
    id: &str,
    crashes_max: u32,
) -> Result<Careful, StoreError> {
    let crashes = match ask!(lanes, lane => lane.attempt(consumer, id)) {
        None => 0,
        Some(open) if open.instance == me.id => open.crashes,
        Some(open) => {
            let all = ask!(lanes, lane => lane.instances(consumer));
            let lives = all.iter().any(|seen| seen.instance.id == open.instance && seen.lives(me));
            // One that ended well in between has closed its attempts before it went.
            let still = lives || ask!(lanes, lane => lane.attempt(consumer, id)).as_ref() == Some(&open);
            open.crashes + u32::from(!lives && still)
        }
    };
    if crashes >= crashes_max {
        return Ok(Careful::Crashed(crashes));
    }
    let attempt = Attempt { instance: me.id.clone(), crashes };
    ask!(lanes, lane => lane.open_attempt(consumer, id, &attempt));
    probe::point("attempt-open");
    Ok(Careful::Open)
}

pub(crate) enum Careful {
    /// The attempt is written down.
    Open,
    /// It has killed this many processes, and that is enough.
    Crashed(u32),
}
