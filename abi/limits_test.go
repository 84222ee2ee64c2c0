package abi_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
)

// Each limit is accepted, and one more is refused.
func TestLimits(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	parses := func(s string) bool { _, err := abi.ParseRef(s); return err == nil }
	for name, valid := range map[string]func(over int) bool{
		"MaxName":   func(over int) bool { return abi.ValidName(x(abi.MaxName + over)) },
		"MaxTarget": func(over int) bool { return abi.ValidTarget(x(abi.MaxTarget + over)) },
		"MaxPath":   func(over int) bool { return abi.ValidRepository(x(abi.MaxPath + over)) },
		"MaxPath of a reference": func(over int) bool {
			return parses("a.b/" + x(abi.MaxPath-10+over) + "/xxxxxxxxx")
		},
		"MaxRef": func(over int) bool {
			rest := "/" + x(abi.MaxPath-10) + "/xxxxxxxxx@1.0.0-"
			return parses("a.b" + rest + x(abi.MaxRef-len(rest)-3+over))
		},
	} {
		if !valid(0) {
			t.Errorf("%s: refused at the limit", name)
		}
		if valid(1) {
			t.Errorf("%s: accepted above the limit", name)
		}
	}
}
