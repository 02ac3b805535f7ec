-- $1 a consumer's name · $2 reason · $3 message id or place · $4 number: null where it does not matter · $5 after this
-- number · $6 how many
select
  d.number, c.name as consumer, d.seen, (extract(epoch from d.first_at) * 1000)::int8 as first_at,
  (extract(epoch from d.last_at) * 1000)::int8 as last_at, d.reason, d.message_id, d.kind, d.key,
  (extract(epoch from d.message_time) * 1000)::int8 as message_time, d.fingerprint, d.fingerprint_version, d.error, d.attempts,
  d.properties, d.headers, d.body, d.body_length, d.body_digest
from semel.dead_letter d join semel.consumer c on c.number = d.consumer
where ($1::text is null or c.name = $1)
  and ($2::text is null or d.reason = $2)
  and ($3::text is null or d.reference = $3)
  and ($4::int8 is null or d.number = $4)
  and d.number > $5
order by d.number
limit $6
