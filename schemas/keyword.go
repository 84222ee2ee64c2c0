package schemas

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// schemaAt follows a keyword location ("/allOf/0/then/$ref/properties/abi/enum") to the
// schema that holds its last keyword.
func schemaAt(root *jsonschema.Schema, location string) *jsonschema.Schema {
	parts := strings.Split(location, "/")
	s := root
	for i := 1; i < len(parts)-1 && s != nil; i++ {
		next := ""
		if i+1 < len(parts) {
			next = unescape(parts[i+1])
		}
		switch parts[i] {
		case "$ref":
			s = s.Ref
		case "then":
			s = s.Then
		case "else":
			s = s.Else
		case "if":
			s = s.If
		case "not":
			s = s.Not
		case "propertyNames":
			s = s.PropertyNames
		case "properties":
			s, i = s.Properties[next], i+1
		case "allOf":
			n, err := strconv.Atoi(next)
			if err != nil || n >= len(s.AllOf) {
				return nil
			}
			s, i = s.AllOf[n], i+1
		case "additionalProperties":
			s, _ = s.AdditionalProperties.(*jsonschema.Schema)
		case "items":
			if s.Items2020 != nil {
				s = s.Items2020
			} else {
				s, _ = s.Items.(*jsonschema.Schema)
			}
		default:
			return nil
		}
	}
	return s
}

func properties(s *jsonschema.Schema) []string {
	if s == nil {
		return nil
	}
	var names []string
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// describe returns the description of a property, the best hint for a missing key.
func describe(s *jsonschema.Schema, key string) string {
	if s == nil {
		return ""
	}
	text := summary(s.Properties[key])
	if text == "" {
		return "add " + key + ":"
	}
	return "add " + key + ": " + strings.ToLower(text[:1]) + strings.TrimSuffix(text[1:], ".")
}

// summary returns the description of a schema or of the one that it refers to.
func summary(s *jsonschema.Schema) string {
	for s != nil && s.Description == "" {
		s = s.Ref
	}
	if s == nil {
		return ""
	}
	return s.Description
}

func schemaTypes(s *jsonschema.Schema) []string {
	if s == nil {
		return []string{"another type"}
	}
	names := map[string]string{"string": "text", "integer": "a whole number", "number": "a number", "object": "a mapping", "array": "a list", "boolean": "true or false", "null": "nothing"}
	var out []string
	for _, t := range s.Types {
		out = append(out, names[t])
	}
	return out
}

// quoteHint returns a hint for a version or digest that YAML reads as a number, if quoting
// it would make it valid.
func (d *Document) quoteHint(ptr string, s *jsonschema.Schema) string {
	if s == nil || !slices.Contains(s.Types, "string") {
		return ""
	}
	n := d.nodes[ptr]
	switch d.lookup(ptr).(type) {
	case float64, int64, bool:
	default:
		return ""
	}
	s = target(s)
	switch {
	case s.Format != "":
		return "write " + formats[s.Format].want
	case len(allowed(s)) > 0:
		return "allowed: " + strings.Join(allowed(s), ", ")
	case n == nil || s.Pattern != nil && !s.Pattern.MatchString(n.Value):
		return summary(s)
	}
	return fmt.Sprintf("write it in quotes: %q", n.Value)
}

// target follows references to the schema that has its own keywords.
func target(s *jsonschema.Schema) *jsonschema.Schema {
	for s.Ref != nil && s.Pattern == nil && s.Format == "" && len(s.Enum) == 0 {
		s = s.Ref
	}
	return s
}

// bound describes the violated limit of a number, text or list.
func bound(keyword string, s *jsonschema.Schema, message string) string {
	if s == nil {
		return message
	}
	switch keyword {
	case "minimum":
		return "the least is " + s.Minimum.RatString()
	case "maximum":
		return "the most is " + s.Maximum.RatString()
	case "exclusiveMinimum":
		return "it must be more than " + s.ExclusiveMinimum.RatString()
	case "exclusiveMaximum":
		return "it must be less than " + s.ExclusiveMaximum.RatString()
	case "minLength":
		return fmt.Sprintf("the least length is %d", s.MinLength)
	case "maxLength":
		return fmt.Sprintf("the greatest length is %d", s.MaxLength)
	case "minItems":
		return fmt.Sprintf("the least number of items is %d", s.MinItems)
	case "maxItems":
		return fmt.Sprintf("the greatest number of items is %d", s.MaxItems)
	case "minProperties":
		return fmt.Sprintf("the least number of keys is %d", s.MinProperties)
	case "maxProperties":
		return fmt.Sprintf("the greatest number of keys is %d", s.MaxProperties)
	}
	return message
}

// allowed returns the values of an enum or the value of a const.
func allowed(s *jsonschema.Schema) []string {
	if s == nil {
		return nil
	}
	values := s.Enum
	if s.Constant != nil {
		values = s.Constant
	}
	var out []string
	for _, v := range values {
		out = append(out, fmt.Sprint(v))
	}
	return out
}
