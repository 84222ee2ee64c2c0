package schemas

import (
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/internal/diag"
)

// Each limit is accepted, and one more is refused.
func TestLimits(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	tooLarge := func(text string) bool {
		_, list := Parse("a.yaml", []byte(text))
		for _, d := range list {
			if d.Code == diag.TooLarge {
				return true
			}
		}
		return false
	}
	for name, valid := range map[string]func(over int) bool{
		"MaxBytes": func(over int) bool { return !tooLarge("a: b\n#" + strings.Repeat("x", MaxBytes-6+over)) },
		"MaxDepth": func(over int) bool { return !tooLarge("a: " + nested(MaxDepth-1+over)) },
		"MaxDepth of a value": func(over int) bool {
			_, err := ReadValue([]byte(nested(MaxDepth + 1 + over))) // the outermost value has level 0
			return err == nil
		},
		"maxDuration": func(over int) bool {
			return formats["duration"].check((maxDuration + time.Duration(over)).String()) == nil
		},
		"maxAddress": func(over int) bool { return validAddress("s3://b/" + strings.Repeat("x", maxAddress-7+over)) },
		"path":       func(over int) bool { return ValidPath(strings.Repeat("x", 255+over)) },
	} {
		if !valid(0) {
			t.Errorf("%s: refused at the limit", name)
		}
		if valid(1) {
			t.Errorf("%s: accepted above the limit", name)
		}
	}
}
