//! The program `semel`.

fn main() -> std::process::ExitCode {
    semel_cli::main()
}
