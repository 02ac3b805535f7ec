delete from semel_instance where consumer = ?1 and id = ?2;
