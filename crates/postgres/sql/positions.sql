select unit, position from semel.position where consumer = $1 and source = $2
