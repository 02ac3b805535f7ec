select (extract(epoch from message_time) * 1000)::int8 from semel.floor where consumer = $1
