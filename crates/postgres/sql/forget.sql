-- $1 consumer · $2 message id. The epoch voids what processes remember of this consumer (law 5).
with gone as (
  delete from semel.claim where consumer = $1 and message_id = $2
)
update semel.consumer set epoch = epoch + 1 where number = $1
