package api

import "encoding/json"

// repeated returns a key that an object of a valid JSON text has twice. Parsers differ in
// which of the values they use.
func repeated(data []byte) (key string, twice bool) {
	var open []map[string]bool // keys of the open objects; nil: an array
	wantKey := false
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{':
			open, wantKey = append(open, map[string]bool{}), true
		case '[':
			open, wantKey = append(open, nil), false
		case '}', ']':
			open, wantKey = open[:len(open)-1], false
		case ',':
			wantKey = open[len(open)-1] != nil
		case '"':
			end := closing(data, i)
			if wantKey {
				keys := open[len(open)-1]
				key = unquote(data[i : end+1])
				if keys[key] {
					return key, true
				}
				keys[key], wantKey = true, false
			}
			i = end
		}
	}
	return "", false
}

// closing returns the index of the quotation mark that closes the string at i.
func closing(data []byte, i int) int {
	for i++; data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i
}

func unquote(data []byte) (s string) {
	_ = json.Unmarshal(data, &s) // valid
	return s
}
