//! Whatever happens, every line that stands in the file in the end was acknowledged, whole and under its number.

use super::*;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;

#[derive(Debug, Clone)]
enum Event {
    Written(Vec<u8>),
    Pulled(usize),
    Acknowledged(Index),
    GivenBack(Index, u64),
    Dropped(Index),
    /// The process ends, and another goes on from the stored position.
    Restarted {
        follow: bool,
    },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let text =
        prop_oneof![4 => "[a-z]{1,6}\n", 1 => "[a-z]{1,6}", 1 => "\n", 1 => "[a-z]{1,3}\r\n", 1 => " \n", 1 => "\r"];
    proptest::collection::vec(
        prop_oneof![
            4 => text.prop_map(|text| Event::Written(text.into_bytes())),
            3 => (1_usize..5).prop_map(Event::Pulled),
            5 => any::<Index>().prop_map(Event::Acknowledged),
            1 => (any::<Index>(), 0_u64..2000).prop_map(|(which, delay)| Event::GivenBack(which, delay)),
            1 => any::<Index>().prop_map(Event::Dropped),
            1 => any::<bool>().prop_map(|follow| Event::Restarted { follow }),
        ],
        0..120,
    )
}

fn take(open: &mut Vec<Pulled>, which: Index) -> Option<Pulled> {
    (!open.is_empty()).then(|| open.swap_remove(which.index(open.len())))
}

async fn acknowledged_after(place: &Place, events: Vec<Event>) -> BTreeSet<Seen> {
    let mut acknowledged = BTreeSet::new();
    let mut subscription = place.source().subscribe(&Positions::new()).await.unwrap();
    let mut open = Vec::new();
    for event in events {
        match event {
            Event::Written(bytes) => place.append(bytes),
            Event::Pulled(max) => {
                if let Ok(batch) = timeout(Duration::from_secs(1), subscription.pull(max)).await {
                    open.extend(batch.unwrap());
                }
            }
            Event::Acknowledged(which) => {
                if let Some(pulled) = take(&mut open, which) {
                    acknowledged.insert(acknowledge(pulled));
                }
            }
            Event::GivenBack(which, delay) => {
                if let Some(pulled) = take(&mut open, which) {
                    pulled.settle.give_back(Duration::from_millis(delay));
                }
            }
            Event::Dropped(which) => drop(take(&mut open, which)),
            Event::Restarted { follow } => {
                let at = subscription.positions();
                open.clear();
                subscription = place.source().follow(follow).subscribe(&at).await.unwrap();
            }
        }
    }
    let at = subscription.positions();
    acknowledged.extend(place.run(&at).await.0);
    acknowledged
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_line_is_lost(events in events()) {
        let place = Place::with("");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let acknowledged = runtime.block_on(acknowledged_after(&place, events));
        let file = std::fs::read_to_string(&place.path).unwrap();
        for (index, text) in file.split('\n').enumerate() {
            let body = text.strip_suffix('\r').unwrap_or(text);
            let whole = line(index as u64 + 1, body);
            let spaced = |seen: &Seen| seen.0 == whole.0 && seen.1.trim_ascii_end() == body.trim_ascii_end();
            prop_assert!(body.trim_ascii().is_empty() || acknowledged.iter().any(spaced), "{whole:?} is not in {acknowledged:?}");
        }
    }
}
