-- The proof before COMMIT (law 11), COMMIT, and the next BEGIN: one simple query, which ends at the first statement that fails.
-- :number is the number of the transaction that holds the claim, digits only. See prove.sql for the setting.
select
  1 / (coalesce(pg_current_xact_id_if_assigned()::text = ':number', false))::int4,
  case when current_setting('synchronous_commit') in ('off', 'local') then set_config('synchronous_commit', 'on', true) end;
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED
