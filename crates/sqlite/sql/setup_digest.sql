select digest from semel_setup where name = ?1;
