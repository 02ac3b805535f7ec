-- How many more connections this role may open on this database: the least of three limits, without the connection that
-- asks. What belongs to others is not visible whole (backend_type is null then), but that it is a session of a user is.
with sessions as (
  select datid, usesysid
  from pg_stat_activity
  where pid <> pg_backend_pid() and datid is not null and usesysid is not null and coalesce(backend_type, 'client backend') = 'client backend'
),
me as (
  select r.oid, r.rolsuper, r.rolconnlimit from pg_roles r where r.rolname = session_user
)
select least(
  current_setting('max_connections')::int8 - (select count(*) from sessions)
    - case
        when me.rolsuper then 0
        else current_setting('superuser_reserved_connections')::int8 + coalesce(nullif(current_setting('reserved_connections', true), ''), '0')::int8
      end,
  case when not me.rolsuper and me.rolconnlimit >= 0 then me.rolconnlimit - (select count(*) from sessions where usesysid = me.oid) end,
  case when not me.rolsuper and d.datconnlimit >= 0 then d.datconnlimit - (select count(*) from sessions where datid = d.oid) end
)
from me, pg_database d
where d.datname = current_database()
