-- The first words on a new connection, in one simple query.
select
  current_setting('server_version_num')::int4,
  current_setting('server_encoding'),
  current_setting('lock_timeout'),
  (extract(epoch from clock_timestamp()) * 1000)::int8
