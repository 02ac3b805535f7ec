//! A disk that is soon full, or takes no writes.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory, mounted on a directory. It leaves with its value.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mount one of this many KiB. Only root may; where that is impossible the answer is `None`, after a line that
    /// says so.
    pub fn mount(at: &Path, kib: u64) -> Option<Self> {
        fs::create_dir_all(at).expect("a directory can be made");
        let mounted = mount(&["-t", "tmpfs", "-o", &format!("size={kib}k,mode=0755"), "tmpfs"], at);
        if !mounted {
            let _ = writeln!(std::io::stderr(), "skipped: a tmpfs cannot be mounted here");
        }
        mounted.then(|| Self(at.to_owned()))
    }

    /// Change its size.
    pub fn resize(&self, kib: u64) {
        assert!(mount(&["-o", &format!("remount,size={kib}k")], &self.0), "a tmpfs can be resized");
    }

    /// Let it take writes, or not.
    pub fn writable(&self, writable: bool) {
        assert!(
            mount(&["-o", if writable { "remount,rw" } else { "remount,ro" }], &self.0),
            "a tmpfs can be remounted"
        );
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: whoever still has a file open there must not keep the directory.
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

fn mount(words: &[&str], at: &Path) -> bool {
    Command::new("mount").args(words).arg(at).output().is_ok_and(|output| output.status.success())
}
