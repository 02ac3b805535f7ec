-- Claims every id of ?2 that is not claimed yet and answers those; the last row says whether keys must be looked at.
-- Two statements in one text are one trip to SQLite's thread. Fingerprints and numbers come as fixed-width records beside the flat array
-- of ids: 3 µs a claim, against 5 µs with one JSON array for each.
insert into semel_claim (consumer, message_id, fingerprint, fingerprint_version, message_time)
select ?1, value,
       case when trim(substr(?4, 1 + 28 * key, 8)) <> '0' then substr(?3, 1 + 16 * key, 16) end,
       trim(substr(?4, 1 + 28 * key, 8)),
       nullif(trim(substr(?4, 9 + 28 * key, 20)), '')
from json_each(?2)
where true
on conflict do nothing
returning message_id;

select exists (select 1 from semel_inbox where consumer = ?1 and holds and key is not null);
