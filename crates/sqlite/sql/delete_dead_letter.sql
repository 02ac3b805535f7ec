delete from semel_dead_letter where number = ?1;
