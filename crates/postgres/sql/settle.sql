-- Durable or not acknowledged (law 6): raised where the session would not wait for the disk, never lowered.
select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') in ('off', 'local');
-- What is asked beside the messages' transactions must not fail for its isolation (law 3).
select set_config('default_transaction_isolation', 'read committed', false);
-- A role that is called semel would find, and make, its own tables in semel's schema: "$user" comes first by default.
select set_config('search_path', regexp_replace(current_setting('search_path'), '("\$user"|"?semel"?)\s*,?\s*', '', 'g'), false)
where 'semel' in (current_schema(), current_user)
