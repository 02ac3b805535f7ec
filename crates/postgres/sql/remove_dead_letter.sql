delete from semel.dead_letter where number = $1
