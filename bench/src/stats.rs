//! Rounds, medians and ratios: both sides in the same round, in turn, since these machines are shared.

use std::future::Future;
use std::time::{Duration, Instant};

/// One comparison: messages a second of both sides, and their ratio, as medians over the rounds.
pub(crate) struct Compared {
    pub(crate) name: String,
    pub(crate) semel: f64,
    pub(crate) hand: f64,
    pub(crate) ratio: f64,
    pub(crate) ratios: Vec<f64>,
    pub(crate) goal: f64,
}

/// Runs both sides `rounds` times, the order turned each round. `messages`: how many each run works off.
pub(crate) async fn compare<A, B, FA, FB>(
    name: &str,
    goal: f64,
    rounds: usize,
    messages: (usize, usize),
    mut semel: A,
    mut hand: B,
) -> Compared
where
    A: FnMut() -> FA,
    B: FnMut() -> FB,
    FA: Future<Output = Duration>,
    FB: Future<Output = Duration>,
{
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let (a, b) = match round % 2 {
            0 => {
                let a = semel().await;
                (a, hand().await)
            }
            _ => {
                let b = hand().await;
                (semel().await, b)
            }
        };
        let (a, b) = (messages.0 as f64 / a.as_secs_f64(), messages.1 as f64 / b.as_secs_f64());
        ours.push(a);
        theirs.push(b);
        ratios.push(a / b);
    }
    Compared {
        name: name.to_owned(),
        semel: median(&mut ours),
        hand: median(&mut theirs),
        ratio: median(&mut ratios.clone()),
        ratios,
        goal,
    }
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

/// How long it takes.
pub(crate) async fn timed<T>(work: impl Future<Output = T>) -> Duration {
    let started = Instant::now();
    work.await;
    started.elapsed()
}

pub(crate) fn print(all: &[Compared]) {
    println!("{:<46} {:>10} {:>10} {:>7} {:>6}   ratios", "", "semel/s", "hand/s", "ratio", "goal");
    for compared in all {
        let Compared { name, semel, hand, ratio, goal, ratios } = compared;
        let met = if ratio >= goal { " " } else { "!" };
        let each: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        println!("{name:<46} {semel:>10.0} {hand:>10.0} {ratio:>7.2} {goal:>5.2}{met}   {}", each.join(" "));
    }
}
