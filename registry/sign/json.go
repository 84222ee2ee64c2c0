package sign

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxDepth bounds the nesting of a bundle or statement.
const maxDepth = 64

// uniqueMembers reads one JSON value and fails if an object has a duplicate
// member. encoding/json would keep the last one; it also matches names without
// regard to case, and so does this comparison.
func uniqueMembers(dec *json.Decoder, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return jsonError(err)
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for dec.More() {
		if delim == '{' {
			tok, err := dec.Token()
			if err != nil {
				return jsonError(err)
			}
			name := strings.ToLower(strings.ToUpper(tok.(string))) // a name is always a string; ſ folds to s

			if seen[name] {
				return fmt.Errorf("member %q twice", clip(name))
			}
			seen[name] = true
		}
		if err := uniqueMembers(dec, depth+1); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return jsonError(err)
	}
	return nil
}

// jsonError names the fault without the decoder's words for an early end.
func jsonError(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("not JSON at byte %d: %w", syntax.Offset, err)
	}
	return fmt.Errorf("not JSON: %w", err)
}
