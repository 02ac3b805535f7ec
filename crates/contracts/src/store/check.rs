//! One check, and how all of them are run.

use super::fixture::Fixture;
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

/// A check that takes longer than this hangs.
const TIME_MAX: Duration = Duration::from_secs(60);
/// So many checks run at once: each has a database of its own, and mostly they wait for the disk.
const AT_ONCE: usize = 4;

type Running<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// One check of the suite. It runs on a database of its own and panics when the store breaks the law.
pub struct Check<F: Fixture> {
    name: String,
    law: &'static str,
    run: fn(&F) -> Running<'_>,
}

impl<F: Fixture> fmt::Debug for Check<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The name and the law, in one line.
impl<F: Fixture> fmt::Display for Check<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.law)
    }
}

impl<F: Fixture> Check<F> {
    pub(crate) fn new(module: &str, function: &str, law: &'static str, run: fn(&F) -> Running<'_>) -> Self {
        let module = module.rsplit("::").next().unwrap_or(module);
        Check { name: format!("{module}/{function}"), law, run }
    }

    /// Its name: the file and the function in which it stands, e.g. `claims/a_repeat_is_a_duplicate`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What must be true.
    pub fn law(&self) -> &'static str {
        self.law
    }

    /// Runs it. `Err`: why it failed.
    pub async fn run(&self, fixture: &F) -> Result<(), String> {
        let mut running = pin!((self.run)(fixture));
        let caught =
            std::future::poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context))) {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(())) => Poll::Ready(Ok(())),
                Err(panic) => Poll::Ready(Err(text_of(&*panic))),
            });
        match tokio::time::timeout(TIME_MAX, caught).await {
            Ok(result) => result,
            Err(_) => Err(format!("it did not end within {} s", TIME_MAX.as_secs())),
        }
    }
}

/// Runs all checks, and panics at the end with those that failed.
pub(crate) async fn run_all<F: Fixture>(fixture: &F, checks: Vec<Check<F>>) {
    let wanted = std::env::var("SEMEL_CONTRACT").unwrap_or_default();
    let chosen: Vec<Check<F>> = checks.into_iter().filter(|check| check.name.contains(&wanted)).collect();
    assert!(!chosen.is_empty(), "SEMEL_CONTRACT={wanted}: no check has that in its name");
    let began = Instant::now();
    let mut failed = Vec::new();
    each_in_turn(chosen.iter().map(|check| timed(fixture, check)), |(check, took, result)| {
        let verdict = if result.is_ok() { "ok" } else { "FAILED" };
        eprintln!("{verdict:6} {:5} ms  {check}", took.as_millis());
        failed.extend(result.err().map(|why| format!("{check}\n    {}", why.replace('\n', "\n    "))));
    })
    .await;
    let all = chosen.len();
    eprintln!("{} of {all} checks passed in {:.1} s", all - failed.len(), began.elapsed().as_secs_f64());
    assert!(failed.is_empty(), "{} of {all} checks failed:\n{}", failed.len(), failed.join("\n"));
}

async fn timed<'a, F: Fixture>(fixture: &F, check: &'a Check<F>) -> (&'a Check<F>, Duration, Result<(), String>) {
    let began = Instant::now();
    let result = check.run(fixture).await;
    (check, began.elapsed(), result)
}

/// Runs the futures, some at once, and gives each result to `done` as it comes.
async fn each_in_turn<W: Future>(futures: impl Iterator<Item = W>, mut done: impl FnMut(W::Output)) {
    let mut rest = futures.map(Box::pin);
    let mut running: Vec<Pin<Box<W>>> = rest.by_ref().take(AT_ONCE).collect();
    std::future::poll_fn(|context| {
        let mut at = 0;
        while at < running.len() {
            match running[at].as_mut().poll(context) {
                Poll::Pending => at += 1,
                Poll::Ready(result) => {
                    done(result);
                    match rest.next() {
                        Some(next) => running[at] = next,
                        None => drop(running.swap_remove(at)),
                    }
                }
            }
        }
        if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(|text| &**text));
    text.unwrap_or("(a panic without a text)").to_owned()
}

/// Lists the checks of a file: the law, then the function.
macro_rules! checks {
    ($($law:literal => $function:ident),* $(,)?) => {
        pub(super) fn checks<F: $crate::store::Fixture>() -> Vec<$crate::store::Check<F>> {
            vec![$($crate::store::Check::new(module_path!(), stringify!($function), $law, |fixture| Box::pin($function(fixture)))),*]
        }
    };
}
pub(crate) use checks;
