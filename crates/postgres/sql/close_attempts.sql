delete from semel.attempt where consumer = $1 and message_id = any ($2::text[])
