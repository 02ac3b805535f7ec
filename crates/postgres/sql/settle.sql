-- Durable or not acknowledged (law 6): raised where the session would not wait for the disk, never lowered.
select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') in ('off', 'local')
