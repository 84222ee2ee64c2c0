package corpus

import "strings"

func contains(s, part string) bool { return strings.Contains(s, part) }
