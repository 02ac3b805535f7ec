select number, window_ms from semel_consumer where name = ?1;
