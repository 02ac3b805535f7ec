create or replace temporary view messages as
select id, kind, key, "time", headers, body, attempt
from pg_catalog.jsonb_to_recordset(nullif(pg_catalog.current_setting('semel.batch', true), '')::pg_catalog.jsonb)
  as batch (id text, kind text, key text, "time" timestamptz, headers jsonb, body jsonb, attempt int)
