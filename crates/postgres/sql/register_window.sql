update semel.consumer set window_ms = $2 where number = $1 and window_ms is distinct from $2
