package schemas

import (
	"fmt"
	"slices"
	"strings"
)

func properties(s *rule) []string {
	if s == nil {
		return nil
	}
	return sortedKeys(s.props)
}

// describe returns the description of a property, the best hint for a missing key.
func describe(s *rule, key string) string {
	if s == nil {
		return ""
	}
	text := summary(s.props[key])
	if text == "" {
		return "add " + key + ":"
	}
	return "add " + key + ": " + strings.ToLower(text[:1]) + strings.TrimSuffix(text[1:], ".")
}

// summary returns the description of a schema or of the one that it refers to.
func summary(s *rule) string {
	for s != nil && s.description == "" {
		s = s.target()
	}
	if s == nil {
		return ""
	}
	return s.description
}

func schemaTypes(s *rule) []string {
	if s == nil {
		return []string{"another type"}
	}
	names := map[string]string{"string": "text", "integer": "a whole number", "number": "a number", "object": "a mapping", "array": "a list", "boolean": "true or false", "null": "nothing"}
	var out []string
	for _, t := range s.types {
		out = append(out, names[t])
	}
	return out
}

// quoteHint returns a hint for a version or digest that YAML reads as a number, if quoting
// it would make it valid.
func (d *Document) quoteHint(ptr string, s *rule) string {
	if s == nil || !slices.Contains(s.types, "string") {
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
	case s.format != "":
		return "write " + formats[s.format].want
	case len(allowed(s)) > 0:
		return "allowed: " + strings.Join(allowed(s), ", ")
	case n == nil || s.pattern != nil && !s.pattern.MatchString(n.Value):
		return summary(s)
	}
	return fmt.Sprintf("write it in quotes: %q", n.Value)
}

// target follows references to the schema that has its own keywords.
func target(s *rule) *rule {
	for s.ref != nil && s.pattern == nil && s.format == "" && len(s.enum) == 0 {
		s = s.target()
	}
	return s
}

// bound describes the violated limit of a number, text or list.
func bound(keyword string, s *rule, message string) string {
	if s == nil {
		return message
	}
	switch keyword {
	case "minimum":
		return "the least is " + s.minimum.RatString()
	case "maximum":
		return "the most is " + s.maximum.RatString()
	case "exclusiveMinimum":
		return "it must be more than " + s.exclusiveMin.RatString()
	case "exclusiveMaximum":
		return "it must be less than " + s.exclusiveMax.RatString()
	case "minLength":
		return fmt.Sprintf("the least length is %d", s.counts[keyword])
	case "maxLength":
		return fmt.Sprintf("the greatest length is %d", s.counts[keyword])
	case "minItems":
		return fmt.Sprintf("the least number of items is %d", s.counts[keyword])
	case "maxItems":
		return fmt.Sprintf("the greatest number of items is %d", s.counts[keyword])
	case "minProperties":
		return fmt.Sprintf("the least number of keys is %d", s.counts[keyword])
	case "maxProperties":
		return fmt.Sprintf("the greatest number of keys is %d", s.counts[keyword])
	}
	return message
}

// allowed returns the values of an enum or the value of a const.
func allowed(s *rule) []string {
	if s == nil {
		return nil
	}
	values := s.enum
	if s.constant != nil {
		values = s.constant
	}
	var out []string
	for _, v := range values {
		out = append(out, fmt.Sprint(v))
	}
	return out
}
