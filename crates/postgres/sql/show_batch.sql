-- $1 the batch as JSON, seen by this transaction alone; and whether the view that shows it is still to be made
select set_config('semel.batch', $1, true) is null, to_regclass('pg_temp.messages') is null
