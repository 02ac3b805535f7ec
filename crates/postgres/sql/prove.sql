-- The proof before COMMIT (law 11). Fails in an aborted transaction; answers false in another one than ours.
-- $1 the transaction's number, or null where nothing was claimed · $2 the mark that its BEGIN set; null where everything was known, so that
-- nobody's work ran
--
-- Besides: makes the commit durable where the session would not (law 6), and never lowers a stronger setting.
-- (statement_timeout need not be lifted for COMMIT: PostgreSQL disarms it before it waits for the disk or a standby.)
select
  case
    when $1::text is not null then $1 is not distinct from pg_current_xact_id_if_assigned()::text
    when $2::text is null then true
    else current_setting('semel.transaction', true) is not distinct from $2::text
  end,
  case when current_setting('synchronous_commit') in ('off', 'local') then set_config('synchronous_commit', 'on', true) end
