-- The inner query sorts numbers, not bodies.
select message_id, kind, key, message_time, fingerprint, fingerprint_version, attempts, holds,
       max(0, due_at - cast(round(unixepoch('now', 'subsec') * 1000) as integer)) as delay_ms,
       error, instance, headers, body, body_length, body_digest, properties
from semel_inbox
where seq in (
    select waiting.seq
    from semel_inbox as waiting
    where waiting.consumer = ?1
      and waiting.due_at <= cast(round(unixepoch('now', 'subsec') * 1000) as integer)
      and not exists (
          select 1 from semel_inbox as earlier
          where earlier.consumer = waiting.consumer and earlier.key = waiting.key and earlier.holds and earlier.seq < waiting.seq
      )
    order by waiting.priority desc, waiting.seq
    limit ?2
)
order by priority desc, seq;
