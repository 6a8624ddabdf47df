package root

const hostileArg = "hostile"

func hostile([]string) {}
