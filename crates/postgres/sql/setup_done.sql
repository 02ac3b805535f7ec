insert into semel.setup (name, digest) values ($1, sha256(convert_to($2, 'UTF8')))
