-- In the order of the array, so that `seq` keeps the order of arrival. All bodies come as one blob, cut here.
insert into semel_inbox (
    consumer, message_id, kind, key, message_time, fingerprint, fingerprint_version, attempts, holds, due_at, error, instance,
    headers, body, body_length, body_digest, properties
)
select ?1, value->>'id', value->>'kind', value->>'key', value->>'time', unhex(value->>'fingerprint'), value->>'version',
       value->>'attempts', value->>'holds',
       cast(round(unixepoch('now', 'subsec') * 1000) as integer) + (value->>'delay'),
       value->>'error', value->>'instance', value->'headers',
       coalesce(substr(?3, 1 + (value->>'body_from'), value->>'body_kept'), zeroblob(0)), value->>'body_length', unhex(value->>'body_digest'),
       value->'properties'
from jsonb_each(?2);
