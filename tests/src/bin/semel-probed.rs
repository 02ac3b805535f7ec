//! The program `semel` with crash points and planted bugs compiled in.

fn main() -> std::process::ExitCode {
    semel_cli::main()
}
