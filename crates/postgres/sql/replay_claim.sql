-- $1 consumer · $2 message id · $3 fingerprint · $4 its version · $5 message time in ms. No row where the id is
-- claimed.
insert into semel.claim (consumer, message_id, fingerprint, fingerprint_version, message_time)
values ($1, $2, $3, $4, to_timestamp($5::int8::float8 / 1000))
on conflict (consumer, message_id) do nothing
