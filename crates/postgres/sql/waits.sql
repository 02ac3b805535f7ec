select exists (select from semel.inbox where consumer = $1 and message_id = $2)
