-- Of one consumer, by message id or coordinates.
select number, ?3 as consumer, seen, first_at, last_at, reason, message_id, kind, key, message_time, fingerprint, fingerprint_version,
       error, attempts, headers, body, body_length, body_digest, properties
from semel_dead_letter
where consumer = ?1 and reference = ?2
order by number;
