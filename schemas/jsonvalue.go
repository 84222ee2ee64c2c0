package schemas

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// typeOf returns the JSON type of a value.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}

func isType(v any, name string) bool {
	if name != "integer" {
		return typeOf(v) == name
	}
	if _, ok := v.(int64); ok {
		return true
	}
	n, ok := rational(v)
	return ok && n.IsInt()
}

// equal compares values; numbers by their value.
func equal(v, w any) bool {
	if v, ok := v.(string); ok { // most values of an enum
		w, ok := w.(string)
		return ok && v == w
	}
	return canonical(v) == canonical(w)
}

// canonical encodes a value such that equal values have equal encodings.
func canonical(v any) string {
	switch v := v.(type) {
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = canonical(v[i])
		}
		return "[" + strings.Join(parts, ",") + "]"
	case map[string]any:
		var parts []string
		for _, name := range sortedKeys(v) {
			parts = append(parts, strconv.Quote(name)+":"+canonical(v[name]))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case string:
		return strconv.Quote(v)
	}
	if n, ok := rational(v); ok {
		return n.RatString()
	}
	return fmt.Sprint(v)
}

// repeated returns the indexes of the first two equal items; the second is 0 if there are
// none.
func repeated(list []any) (first, second int) {
	at := make(map[string]int, len(list))
	for j, v := range list {
		key := canonical(v)
		if i, ok := at[key]; ok {
			return i, j
		}
		at[key] = j
	}
	return 0, 0
}

// toJSON formats a value for messages.
func toJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

// quoteName puts a text into single quotes.
func quoteName(s string) string {
	s = strings.ReplaceAll(strconv.Quote(s), `\"`, `"`)
	return "'" + strings.ReplaceAll(s[1:len(s)-1], "'", `\'`) + "'"
}

func quoteNames(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = quoteName(s)
	}
	return strings.Join(out, ", ")
}
