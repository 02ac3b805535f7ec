select unit, position from semel_position where consumer = ?1 and source = ?2;
