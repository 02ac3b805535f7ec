-- The proof before COMMIT (law 11), COMMIT, and the next BEGIN: one simple query, which ends at the first statement that fails.
-- :number is the number of the transaction that holds the claim, digits only. In another transaction the proof fails with 2203A, an error that
-- nobody else's SQL is likely to make (built at run time, or the planner would raise it). See prove.sql for the setting.
select
  case
    when pg_current_xact_id_if_assigned()::text = ':number' then null
    else jsonb_path_query_first(jsonb_build_object(), 'strict $.semel')
  end,
  case when current_setting('synchronous_commit') in ('off', 'local') then set_config('synchronous_commit', 'on', true) end;
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED
