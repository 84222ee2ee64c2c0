package sigstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// maxDepth bounds the nesting of a bundle or statement.
const maxDepth = 64

// Decode decodes the one JSON value in data, which must not name a member twice: two
// readers could then see different values.
func Decode(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := uniqueMembers(dec, 0); err != nil {
		return err
	}
	return json.Unmarshal(data, v) // refuses trailing data
}

// decodeProto decodes a message of protobuf in its JSON form. Unknown members are ignored; a
// duplicate member, in any case, is an error.
func decodeProto(data []byte, m proto.Message) error {
	var raw json.RawMessage
	if err := Decode(data, &raw); err != nil {
		return err
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m)
}

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

// clip shortens foreign text for a message.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
