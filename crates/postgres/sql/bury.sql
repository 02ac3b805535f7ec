-- Dead letters. $1 consumer · $2 how many variants of one reference are kept · the rest are arrays, one entry a letter;
-- a reference that is not empty stands at most once for a reason. Answers for each, in order, whether the same one had
-- been there before.
with given as (
  select *
  from unnest(
    $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int8[], $9::bytea[], $10::int2[], $11::text[], $12::int4[],
    $13::text[], $14::text[], $15::bytea[], $16::int8[], $17::bytea[]
  ) with ordinality as g (
    reason, reference, message_id, kind, key, time, fingerprint, version, error, attempts,
    properties, headers, body, body_length, body_digest, place
  )
),
judged as (
  -- An empty reference names no message: the limit is for variants of one, and whoever has neither id nor place is
  -- kept.
  select
    g.*,
    g.reference = ''
      or exists (
        select from semel.dead_letter d
        where d.consumer = $1 and d.reason = g.reason and d.reference = g.reference and d.fingerprint = g.fingerprint
      )
      or $2 > (
        select count(*) from semel.dead_letter d where d.consumer = $1 and d.reason = g.reason and d.reference = g.reference
      ) as kept
  from given g
),
counted as (
  update semel.dead_letter
  set seen = seen + 1, last_at = clock_timestamp()
  where number in (
    select (
      select max(d.number) from semel.dead_letter d where d.consumer = $1 and d.reason = j.reason and d.reference = j.reference
    )
    from judged j
    where not j.kept
  )
),
written as (
  insert into semel.dead_letter as d (
    consumer, reason, reference, message_id, kind, key, message_time, fingerprint, fingerprint_version, error, attempts,
    first_at, last_at, properties, headers, body, body_length, body_digest
  )
  select
    $1, reason, reference, message_id, kind, key, to_timestamp(time::float8 / 1000), fingerprint, version, error, attempts,
    clock_timestamp(), clock_timestamp(), properties, headers, body, body_length, body_digest
  from judged
  where kept
  order by place
  on conflict (consumer, reason, reference, fingerprint) do update set seen = d.seen + 1, last_at = excluded.last_at
  returning d.reason, d.reference, d.fingerprint, d.seen > 1 as before
)
select coalesce(w.before, false)
from judged j
left join written w on w.reason = j.reason and w.reference = j.reference and w.fingerprint = j.fingerprint
order by j.place
