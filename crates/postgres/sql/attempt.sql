select instance, crashes from semel.attempt where consumer = $1 and message_id = $2
