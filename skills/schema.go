package skills

import (
	"bytes"
	"encoding/json"
	"strings"

	"mm-abi.org/mm/abi"
)

// maxText limits a text in an argument or a result, in characters: a call is
// no longer than abi.MaxToolCall.
const maxText = abi.MaxToolCall

// asset is the pattern of a uri such as "#img0".
const asset = `^#[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$`

// Schema returns the JSON Schema (draft 2020-12) of an object with a value for
// each port, in the order of the ports.
//
//	uri    text, #NAME      str   text
//	int    integer          float number
//	bool   boolean          json  anything
//	list[T] list of T
func Schema(ports []abi.Port) []byte {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{`)
	required := []string{}
	for i, p := range ports {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quote(p.Name) + ":" + value(p.Type, p.Description))
		if !p.Optional {
			required = append(required, p.Name)
		}
	}
	list, _ := json.Marshal(required) // strings always encode
	b.WriteString(`},"required":` + string(list) + `,"additionalProperties":false}`)
	return []byte(b.String())
}

// Narrowed returns a schema in which a uri must be one of the named assets.
// Without assets, it returns the schema unchanged.
func Narrowed(schema []byte, assets []string) []byte {
	if len(assets) == 0 {
		return schema
	}
	refs := make([]string, len(assets))
	for i, name := range assets {
		refs[i] = "#" + name
	}
	list, _ := json.Marshal(refs) // strings always encode
	// A description cannot match: its quotes are escaped.
	return bytes.ReplaceAll(schema, []byte(`"pattern":`+quote(asset)), []byte(`"enum":`+string(list)))
}

// value returns the schema of a type.
func value(typ, description string) string {
	extra := ""
	if description != "" {
		extra = `,"description":` + quote(description)
	}
	if item, ok := strings.CutPrefix(typ, "list["); ok {
		return `{"type":"array","items":` + value(strings.TrimSuffix(item, "]"), "") + extra + `}`
	}
	switch typ {
	case "uri":
		return `{"type":"string","pattern":` + quote(asset) + extra + `}`
	case "str":
		limit, _ := json.Marshal(maxText)
		return `{"type":"string","maxLength":` + string(limit) + extra + `}`
	case "int":
		return `{"type":"integer"` + extra + `}`
	case "float":
		return `{"type":"number"` + extra + `}`
	case "bool":
		return `{"type":"boolean"` + extra + `}`
	}
	return `{` + strings.TrimPrefix(extra, ",") + `}`
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string always encodes
	return string(b)
}
