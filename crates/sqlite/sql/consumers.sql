select number, name from semel_consumer where ?1 is null or name = ?1 order by name;
