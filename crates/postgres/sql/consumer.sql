select number from semel.consumer where name = $1
