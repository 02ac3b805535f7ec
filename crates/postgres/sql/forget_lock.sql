-- $1 consumer · $2 message id. The lock keeps a sweep and a second forget away until this transaction ends.
select true from semel.claim where consumer = $1 and message_id = $2 for update
