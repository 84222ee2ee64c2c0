package skills

import (
	"bytes"
	"encoding/json"
	"strings"

	"mm-abi.org/mm/abi"
)

// maxText is how long a text in an argument or a result may be, in characters:
// a call is no longer than abi.MaxToolCall.
const maxText = abi.MaxToolCall

// asset is the form of a uri: the playbook's "#img0".
const asset = `^#[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$`

// Schema is the JSON Schema (draft 2020-12) of an object with a value for each
// port, in the order of the ports.
//
//	uri    text, #NAME      str   text
//	int    whole number     float number
//	bool   truth value      json  anything
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
	list, _ := json.Marshal(required) // a list of texts
	b.WriteString(`},"required":` + string(list) + `,"additionalProperties":false}`)
	return []byte(b.String())
}

// Narrowed is such a schema in which a uri is one of the assets of a request, by
// their names. Without any it stays as it is.
func Narrowed(schema []byte, assets []string) []byte {
	if len(assets) == 0 {
		return schema
	}
	refs := make([]string, len(assets))
	for i, name := range assets {
		refs[i] = "#" + name
	}
	list, _ := json.Marshal(refs) // a list of texts
	// In a description the quotes would be escaped.
	return bytes.ReplaceAll(schema, []byte(`"pattern":`+quote(asset)), []byte(`"enum":`+string(list)))
}

// value is the schema of a type.
func value(typ, description string) string {
	said := ""
	if description != "" {
		said = `,"description":` + quote(description)
	}
	if item, ok := strings.CutPrefix(typ, "list["); ok {
		return `{"type":"array","items":` + value(strings.TrimSuffix(item, "]"), "") + said + `}`
	}
	switch typ {
	case "uri":
		return `{"type":"string","pattern":` + quote(asset) + said + `}`
	case "str":
		limit, _ := json.Marshal(maxText)
		return `{"type":"string","maxLength":` + string(limit) + said + `}`
	case "int":
		return `{"type":"integer"` + said + `}`
	case "float":
		return `{"type":"number"` + said + `}`
	case "bool":
		return `{"type":"boolean"` + said + `}`
	}
	return `{` + strings.TrimPrefix(said, ",") + `}`
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a text
	return string(b)
}
