-- $1 a consumer's name, or null for all · $2 message id
select
  c.name, (extract(epoch from k.claimed_at) * 1000)::int8, k.fingerprint, k.fingerprint_version,
  (extract(epoch from k.message_time) * 1000)::int8
from semel.consumer c join semel.claim k on k.consumer = c.number and k.message_id = $2
where $1::text is null or c.name = $1
