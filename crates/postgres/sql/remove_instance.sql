delete from semel.instance where consumer = $1 and id = $2
