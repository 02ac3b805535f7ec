-- The proof before COMMIT (law 11). Fails in an aborted transaction; answers false in another one than ours.
-- $1 the transaction's number, or null where nothing was claimed · $2 the mark that its BEGIN set
-- Besides: makes the commit durable where the session would not (law 6), never the other way; and lets no statement_timeout cut the wait for
-- a synchronous standby, for COMMIT would then succeed without it.
select
  case
    when $1::text is not null then $1 is not distinct from pg_current_xact_id_if_assigned()::text
    else current_setting('semel.transaction', true) is not distinct from $2::text
  end,
  set_config('statement_timeout', '0', true),
  case when current_setting('synchronous_commit') in ('off', 'local') then set_config('synchronous_commit', 'on', true) end
