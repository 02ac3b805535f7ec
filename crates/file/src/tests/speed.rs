//! How fast lines are read, and in how much memory. Run by hand:
//! `cargo test --release -p semel-file -- --ignored --nocapture speed`

use super::*;
use std::io::BufWriter;
use std::time::Instant;

const LINES: u64 = 10_000_000;

#[tokio::test]
#[ignore = "a measurement"]
async fn speed_and_memory() {
    let place = Place::with("");
    let mut writer = BufWriter::new(place.opened());
    for number in 0..LINES {
        writeln!(
            writer,
            r#"{{"payment_id":"pay-{number:08}","type":"payment.requested","account":"acc-{:03}","amount":1250}}"#,
            number % 997
        )
        .unwrap();
    }
    writer.flush().unwrap();
    let before = peak_memory();

    let mut subscription = place.source().subscribe(&Positions::new()).await.unwrap();
    let (mut lines, started) = (0, Instant::now());
    loop {
        let batch = subscription.pull(400).await.unwrap();
        if batch.is_empty() {
            break;
        }
        lines += batch.len() as u64;
        for pulled in batch {
            pulled.settle.acknowledge();
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(lines, LINES);
    eprintln!(
        "{:.2} million lines/s, {} KiB of memory more at the peak",
        lines as f64 / seconds / 1e6,
        peak_memory() - before
    );
}

/// The most memory that this process has had, in KiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
