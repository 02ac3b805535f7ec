//! Replay (law 28): from the dead letters back to the inbox, under a claim, once.

use super::check::checks;
use super::dead_letters::letter;
use super::fixture::Fixture;
use super::stage::{Stage, begin, ids, joined, key, print, process, waiting, waiting_key};
use semel_core::{
    Claim, ClaimKey, Cut, DeadLetter, Envelope, Identity, Lane, Outcome, Reason, Records, Replay, ReplayError,
    Replayed, Waiting, Writes,
};
use std::sync::Arc;
use tokio::sync::Barrier;

checks! {
    "law 28: a failed message is replayed under the claim that it has, and worked once" => a_failed_message,
    "law 28: a message without a claim gets one; where the id is claimed nothing changes" => a_message_without_a_claim,
    "law 28: a conflict takes the place of a first version that is a dead letter itself" => a_conflict_replaces_a_dead_first_version,
    "law 28: a conflict with a message that is done needs an id of its own" => a_conflict_with_a_message_that_is_done,
    "law 28: of eight replays of one dead letter one puts it back" => replays_race,
    "law 28: a replay and a delivery of the same id do not pass through each other" => a_replay_races_a_delivery,
    "law 28: replay identifies anew, and refuses what cannot be worked: stale, cut, still without an id" => refusals,
}

async fn stored<F: Fixture>(stage: &Stage<F>, reason: Reason) -> i64 {
    let letters = stage.dead_letters().await;
    letters
        .iter()
        .find(|found| found.letter.reason == reason)
        .unwrap_or_else(|| panic!("no {reason} in {letters:?}"))
        .number
}

async fn finish<F: Fixture>(stage: &Stage<F>, consumer: semel_core::ConsumerNumber, id: &str) {
    let mut lane = stage.lane().await;
    assert_eq!(begin::<F>(&mut lane, consumer, &[waiting_key(id, 0)]).await.claims, [Claim::Fresh]);
    F::write(lane.conn(), id).await.expect("write");
    lane.commit(&Writes { finished: vec![id.to_owned()], ..Writes::default() }).await.expect("commit");
}

async fn a_failed_message<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let message = Envelope::new("a", "body");
    let failed = Identity::default().identify(message.clone()).expect("it has an id");
    let key = ClaimKey { fingerprint: failed.fingerprint(), ..key("a") };
    let letter = DeadLetter {
        fingerprint: failed.fingerprint(),
        envelope: message.clone(),
        attempts: 7,
        ..letter(Reason::Failed, "a")
    };
    stage.commit(number, &[key], &Writes { dead: vec![letter], ..Writes::default() }).await;
    assert_eq!(stage.process("c", &message).await, Outcome::Duplicate, "a dead letter is claimed");
    let at = stored(&stage, Reason::Failed).await;
    stage.semel.replay(at, &Identity::default(), &Replay::default()).await.expect("replay");
    assert!(stage.dead_letters().await.is_empty());
    let due = stage.due(number).await;
    assert_eq!((ids(&due), due[0].attempts, &due[0].envelope), (vec!["a"], 0, &message), "due now, with all its tries");
    assert_eq!(stage.process("c", &message).await, Outcome::Duplicate, "it waits");
    let gone = stage.semel.replay(at, &Identity::default(), &Replay::default()).await;
    assert!(matches!(gone, Err(ReplayError::Gone(_))), "{gone:?}");
    finish(&stage, number, "a").await;
    assert_eq!(stage.process("c", &message).await, Outcome::Duplicate);
    assert_eq!(stage.effects().await, ["a"]);
}

async fn a_message_without_a_claim<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    stage.commit(number, &[key("done")], &Writes::default()).await;
    let nameless = |content| DeadLetter { id: None, fingerprint: print(content), ..letter(Reason::MissingId, "") };
    stage.write(number, &Writes { dead: vec![nameless(1), nameless(2)], ..Writes::default() }).await;
    let numbers: Vec<i64> = stage.dead_letters().await.iter().map(|found| found.number).collect();
    let mut lane = stage.lane().await;
    let taken = lane.replay(numbers[0], &waiting("done"), None).await.expect("replay");
    assert_eq!(taken, Replayed::Claimed);
    assert_eq!((stage.dead_letters().await.len(), stage.due(number).await.len()), (2, 0), "nothing changed");
    assert_eq!(lane.replay(numbers[0], &waiting("new"), None).await.expect("replay"), Replayed::Waits);
    assert_eq!(lane.replay(numbers[0], &waiting("new"), None).await.expect("replay"), Replayed::Gone);
    assert_eq!(
        lane.replay(numbers[1], &waiting("new"), None).await.expect("replay"),
        Replayed::Claimed,
        "by the one before it"
    );
    assert_eq!(ids(&stage.due(number).await), ["new"]);
    assert_eq!(begin::<F>(&mut lane, number, &[key("new")]).await.claims, [Claim::Duplicate]);
    lane.rollback().await.expect("rollback");
    finish(&stage, number, "new").await;
}

async fn a_conflict_replaces_a_dead_first_version<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let identify = |body: &str| Identity::default().identify(Envelope::new("a", body)).expect("it has an id");
    let (first, second) = (identify("first"), identify("second"));
    let version = |message: &semel_core::Incoming, reason| DeadLetter {
        fingerprint: message.fingerprint(),
        envelope: message.envelope().clone(),
        kind: String::new(),
        ..letter(reason, "a")
    };
    let claim = ClaimKey { fingerprint: first.fingerprint(), ..key("a") };
    stage.commit(number, &[claim], &Writes { dead: vec![version(&first, Reason::Failed)], ..Writes::default() }).await;
    stage.write(number, &Writes { dead: vec![version(&second, Reason::Conflict)], ..Writes::default() }).await;
    let at = stored(&stage, Reason::Conflict).await;
    stage.semel.replay(at, &Identity::default(), &Replay::default()).await.expect("replay");
    assert!(stage.dead_letters().await.is_empty(), "both are gone: the one waits, the other was replaced");
    let due = stage.due(number).await;
    assert_eq!((ids(&due), &*due[0].envelope.body), (vec!["a"], &b"second"[..]));
    assert_eq!(
        stage.process("c", second.envelope()).await,
        Outcome::Duplicate,
        "the claim is of the second version now"
    );
    assert_eq!(stage.process("c", first.envelope()).await, Outcome::Conflict);
    finish(&stage, number, "a").await;
}

async fn a_conflict_with_a_message_that_is_done<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    assert_eq!(stage.process("c", &Envelope::new("a", "first")).await, Outcome::Processed);
    assert_eq!(stage.process("c", &Envelope::new("a", "second")).await, Outcome::Conflict);
    let at = stored(&stage, Reason::Conflict).await;
    let claimed = stage.semel.replay(at, &Identity::default(), &Replay::default()).await;
    assert!(matches!(claimed, Err(ReplayError::Claimed(_))), "{claimed:?}");
    assert_eq!((stage.dead_letters().await.len(), stage.due(number).await.len()), (1, 0), "nothing changed");
    assert_eq!(
        stage.process("c", &Envelope::new("a", "first")).await,
        Outcome::Duplicate,
        "the first version's claim stands"
    );
    let renamed = Replay { new_id: Some("a2".to_owned()), ..Replay::default() };
    stage.semel.replay(at, &Identity::default(), &renamed).await.expect("replay under another id");
    assert_eq!(ids(&stage.due(number).await), ["a2"]);
    finish(&stage, number, "a2").await;
    assert_eq!(stage.effects().await, ["a", "a2"]);
}

async fn replays_race<F: Fixture>(fixture: &F) {
    const TASKS: usize = 8;
    let stage = Stage::with_lanes(fixture, TASKS).await;
    let number = stage.number("c").await;
    for (round, reason) in [Reason::Failed, Reason::MissingId, Reason::Rejected].into_iter().enumerate() {
        let id = round.to_string();
        let dead = Writes { dead: vec![letter(reason, &id)], ..Writes::default() };
        let keys = [key(&id)];
        stage.commit(number, if reason.claims() { &keys } else { &[] }, &dead).await;
        let at = stored(&stage, reason).await;
        let start = Arc::new(Barrier::new(TASKS));
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (semel, start, id) = (stage.semel.clone(), start.clone(), id.clone());
                tokio::spawn(async move {
                    start.wait().await;
                    let mut lane = semel.lane().await.expect("a lane");
                    let replayed = lane.replay(at, &waiting(&id), None).await.expect("replay");
                    lane.done();
                    replayed
                })
            })
            .collect();
        let mut waits = 0;
        for task in tasks {
            match joined(task).await {
                Replayed::Waits => waits += 1,
                Replayed::Gone => {}
                Replayed::Claimed => panic!("the letter is gone, not claimed by another message"),
            }
        }
        assert_eq!((waits, ids(&stage.due(number).await)), (1, vec![&*id]), "{reason}");
        finish(&stage, number, &id).await;
    }
}

/// A message without a claim is replayed under an id, while a message of that id comes: one of the two has it.
async fn a_replay_races_a_delivery<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 4).await;
    let number = stage.number("c").await;
    for round in 0..10 {
        let id = round.to_string();
        let nameless = DeadLetter { id: None, fingerprint: print(round), ..letter(Reason::MissingId, "") };
        stage.write(number, &Writes { dead: vec![nameless], ..Writes::default() }).await;
        let at = stored(&stage, Reason::MissingId).await;
        let start = Arc::new(Barrier::new(2));
        let replaying = {
            let (semel, start, id) = (stage.semel.clone(), start.clone(), id.clone());
            tokio::spawn(async move {
                start.wait().await;
                let mut lane = semel.lane().await.expect("a lane");
                let replayed = lane.replay(at, &waiting(&id), None).await.expect("replay");
                lane.done();
                replayed
            })
        };
        let delivering = {
            let (semel, id) = (stage.semel.clone(), id.clone());
            tokio::spawn(async move {
                start.wait().await;
                process::<F>(&semel, "c", &Envelope::new(id, "body")).await.expect("process").outcome()
            })
        };
        let (replayed, delivered) = (joined(replaying).await, joined(delivering).await);
        match replayed {
            Replayed::Waits => {
                assert_eq!(delivered, Outcome::Conflict, "round {round}: the replay was first");
                finish(&stage, number, &id).await;
            }
            Replayed::Claimed => {
                assert_eq!(delivered, Outcome::Processed, "round {round}: the delivery was first");
                stage.semel.lane().await.expect("a lane").discard(at).await.expect("discard");
            }
            Replayed::Gone => panic!("round {round}: nobody took it"),
        }
        assert_eq!(stage.count(&id).await, 1, "round {round}");
    }
}

async fn refusals<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let cut = Envelope { cut: Some(Cut { length: 1 << 30, digest: [1; 16] }), ..Envelope::new("cut", "beginning") };
    let dead = vec![
        letter(Reason::Stale, "stale"),
        DeadLetter { id: None, envelope: cut, ..letter(Reason::TooLarge, "") },
        DeadLetter { id: None, envelope: Envelope::default(), ..letter(Reason::MissingId, "") },
    ];
    stage.write(number, &Writes { dead, ..Writes::default() }).await;
    let replay = async |reason, how: Replay| {
        let at = stored(&stage, reason).await;
        stage.semel.replay(at, &Identity::default(), &how).await
    };
    let as_it_is = Replay::default;
    assert!(matches!(replay(Reason::Stale, as_it_is()).await, Err(ReplayError::Stale)));
    assert!(matches!(replay(Reason::TooLarge, as_it_is()).await, Err(ReplayError::Cut(_))));
    assert!(matches!(replay(Reason::MissingId, as_it_is()).await, Err(ReplayError::StillRefused { .. })));
    assert_eq!((stage.dead_letters().await.len(), stage.due(number).await.len()), (3, 0), "nothing changed");
    replay(Reason::Stale, Replay { force: true, ..as_it_is() }).await.expect("replay by force");
    replay(Reason::MissingId, Replay { new_id: Some("named".to_owned()), ..as_it_is() })
        .await
        .expect("replay under an id");
    let due: Vec<Waiting> = stage.due(number).await;
    assert_eq!(ids(&due), ["stale", "named"]);
}
