-- Asked of the catalog, not of to_regclass: that one may answer from a cache, which the wait for the lock of another
-- migration does not renew.
select exists (
  select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where n.nspname = 'semel' and c.relname = 'migration'
)
