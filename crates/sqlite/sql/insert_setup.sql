insert into semel_setup (name, digest) values (?1, ?2);
