-- $1 consumer · $2 message id · $3 fingerprint · $4 its version · $5 message time in ms: the claim now stands for this
-- content
update semel.claim
set fingerprint = $3, fingerprint_version = $4, message_time = to_timestamp($5::int8::float8 / 1000), claimed_at = clock_timestamp()
where consumer = $1 and message_id = $2
