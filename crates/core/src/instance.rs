//! Which process began an attempt, and does it still live (law 15)? Only an attempt left open by a dead process counts as a crash.

use std::time::Duration;

/// Without a sign of life for this long, a process of another machine counts as dead.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// How often a process shows that it lives.
pub(crate) const BEAT_EVERY: Duration = Duration::from_secs(5);

/// This process, as it is written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Unique for each run of the program.
    pub id: String,
    /// Machine boot and process namespace: two processes with the same place can look for each other.
    pub place: String,
    /// Process id within its place.
    pub process: u32,
    /// When the process started, in the system's ticks: process ids are used again.
    pub started: u64,
}

/// A process as it was written down.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The process.
    pub instance: Instance,
    /// Time since its last sign of life, by the database's clock.
    pub silent: Duration,
}

impl Instance {
    /// This process.
    pub fn current() -> Self {
        let process = std::process::id();
        Instance {
            id: uuid::Uuid::now_v7().to_string(),
            place: place().unwrap_or_default(),
            process,
            started: started(process).unwrap_or_default(),
        }
    }
}

impl Seen {
    /// Whether the process lives, as far as `me` can tell: on the same machine by looking, elsewhere by its silence.
    pub(crate) fn lives(&self, me: &Instance) -> bool {
        if self.instance.id == me.id {
            return true;
        }
        match !me.place.is_empty() && self.instance.place == me.place {
            true => started(self.instance.process) == Some(self.instance.started),
            false => self.silent < SILENCE_MAX,
        }
    }
}

/// Boot id and process namespace. `None` where there is no `/proc`: then only silence tells.
fn place() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
}

/// Field 22 of `/proc/PID/stat`; the name in field 2 may hold spaces and brackets, so count from its last one. A zombie is dead.
fn started(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_on_its_own_machine_and_listens_elsewhere() {
        let me = Instance::current();
        let seen =
            |instance: &Instance, seconds| Seen { instance: instance.clone(), silent: Duration::from_secs(seconds) };
        let twin = Instance { id: "other".into(), ..me.clone() };
        assert!(seen(&me, 1000).lives(&me));
        if !me.place.is_empty() {
            assert!(seen(&twin, 1000).lives(&me), "the process is there, however silent");
            let reused = Instance { started: me.started + 1, ..twin.clone() };
            assert!(!seen(&reused, 0).lives(&me), "its process id belongs to somebody else now");
        }
        let far = Instance { place: "elsewhere".into(), ..twin };
        assert!(seen(&far, 14).lives(&me) && !seen(&far, 16).lives(&me));
    }
}
