package schemas

import (
	"errors"
	"fmt"
	"strings"
)

// Assign decodes assignments of YAML values, NAME=VALUE, as one mapping. A value without a
// name is a flow mapping.
func Assign(assignments []string, into any) error {
	if len(assignments) == 0 {
		return nil
	}
	var text strings.Builder
	for _, g := range assignments {
		name, value, ok := strings.Cut(g, "=")
		if strings.HasPrefix(strings.TrimSpace(g), "{") {
			name, value, ok = "", g, true
		}
		if !ok || strings.ContainsAny(value, "\n\r") || strings.TrimSpace(value) == "" {
			return fmt.Errorf("%s: want NAME=VALUE with a value of one line of YAML", g)
		}
		fmt.Fprintf(&text, "%q: %s\n", name, value)
	}
	doc, list := Parse("the command line", []byte(text.String()))
	if list.Failed() {
		return fmt.Errorf("%s: %w", strings.Join(assignments, " "), list.Err())
	}
	if err := doc.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(assignments, " "), errors.Unwrap(err))
	}
	return nil
}
