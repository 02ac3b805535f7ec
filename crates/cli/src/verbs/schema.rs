//! `semel schema`: the tables as SQL.

use crate::args::Dialect;
use crate::error::CliError;
use crate::output;

pub(crate) fn schema(dialect: Dialect) -> Result<(), CliError> {
    let sql = match dialect {
        #[cfg(feature = "sqlite")]
        Dialect::Sqlite => semel::sqlite::SCHEMA,
        #[cfg(feature = "postgres")]
        Dialect::Postgres => semel::postgres::SCHEMA,
        #[allow(unreachable_patterns, reason = "reached in builds without all stores")]
        _ => return Err(CliError::Use("this program was built without that store".to_owned())),
    };
    output::data(format_args!("{}", sql.trim_end()));
    Ok(())
}
