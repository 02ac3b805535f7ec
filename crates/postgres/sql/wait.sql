-- Claimed messages that wait from now on. $1 consumer; the rest are arrays, one entry a message.
insert into semel.inbox (
  consumer, message_id, kind, key, message_time, fingerprint, fingerprint_version, attempts, holds, since, due_at,
  error, instance, properties, headers, body, body_length, body_digest
)
select
  $1, g.id, g.kind, g.key, to_timestamp(g.time::float8 / 1000), g.fingerprint, g.version, g.attempts, g.holds,
  clock.now, clock.now + g.delay * interval '1 millisecond',
  g.error, g.instance, g.properties, g.headers, g.body, g.body_length, g.body_digest
from (select clock_timestamp() as now) clock, unnest(
  $2::text[], $3::text[], $4::text[], $5::int8[], $6::bytea[], $7::int2[], $8::int4[], $9::bool[], $10::int8[],
  $11::text[], $12::text[], $13::text[], $14::text[], $15::bytea[], $16::int8[], $17::bytea[]
) with ordinality as g (
  id, kind, key, time, fingerprint, version, attempts, holds, delay,
  error, instance, properties, headers, body, body_length, body_digest, place
)
order by g.place
