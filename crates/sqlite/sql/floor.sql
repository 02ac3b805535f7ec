select message_time from semel_floor where consumer = ?1;
