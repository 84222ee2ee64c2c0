package jinja

import (
	"errors"
	"fmt"
	"strings"
)

// test is a predicate: value is name.
type test func(r *run, v value, args callArgs) (bool, error)

// testNamed returns a supported test, or nil.
func testNamed(name string) test {
	switch name {
	case "defined", "undefined":
		return func(_ *run, v value, _ callArgs) (bool, error) {
			_, missing := v.(undefined)
			return missing == (name == "undefined"), nil
		}
	case "none", "None", "boolean", "true", "false", "integer", "float", "number", "string", "mapping",
		"sequence", "iterable", "callable", "lower", "upper", "odd", "even":
		return func(_ *run, v value, _ callArgs) (bool, error) { return is(name, v) }
	case "divisibleby":
		return func(_ *run, v value, args callArgs) (bool, error) {
			n, err := args.int(0, "num", 0)
			i, _, isInt, ok := number(v)
			if err != nil || !ok || !isInt || n == 0 {
				return false, errors.Join(err, errors.New("want integers, and not 0"))
			}
			return i%n == 0, nil
		}
	case "sameas":
		return func(_ *run, v value, args callArgs) (bool, error) {
			other, _ := args.arg(0, "other")
			return same(v, other), nil
		}
	case "filter", "test":
		return func(_ *run, v value, _ callArgs) (bool, error) {
			s, _ := v.(string)
			return name == "filter" && filterNamed(s) != nil || name == "test" && testNamed(s) != nil, nil
		}
	}
	ops := map[string]string{
		"eq": "==", "equalto": "==", "==": "==", "ne": "!=", "!=": "!=", "lt": "<", "lessthan": "<", "<": "<",
		"le": "<=", "<=": "<=", "gt": ">", "greaterthan": ">", ">": ">", "ge": ">=", ">=": ">=", "in": "in",
	}
	op, ok := ops[name]
	if !ok {
		return nil
	}
	return func(r *run, v value, args callArgs) (bool, error) {
		if len(args.plain) != 1 {
			return false, fmt.Errorf("got %d arguments, want 1", len(args.plain))
		}
		return r.compare(op, v, args.plain[0])
	}
}

// is evaluates the tests of the value alone.
func is(name string, v value) (bool, error) {
	b, isBool := v.(bool)
	i, _, isInt, isNumber := number(v)
	switch name {
	case "none", "None":
		return v == nil, nil
	case "boolean":
		return isBool, nil
	case "true":
		return isBool && b, nil
	case "false":
		return isBool && !b, nil
	case "integer":
		_, big := v.(bigInt)
		return big || isInt && isNumber && !isBool, nil
	case "float":
		return isNumber && !isInt, nil
	case "number":
		_, big := v.(bigInt)
		return big || isNumber, nil
	case "odd", "even":
		if !isNumber || !isInt {
			return false, fmt.Errorf("%s is not an integer", kindOf(v))
		}
		return (i%2 == 0) == (name == "even"), nil
	}
	switch x := v.(type) {
	case string:
		switch name {
		case "lower":
			return strings.ToLower(x) == x && strings.ToUpper(x) != x, nil
		case "upper":
			return strings.ToUpper(x) == x && strings.ToLower(x) != x, nil
		}
		return name == "string" || name == "sequence" || name == "iterable", nil
	case *dict:
		return name == "mapping" || name == "sequence" || name == "iterable", nil
	case *list:
		return name == "sequence" || name == "iterable", nil
	case undefined:
		return name == "sequence" || name == "iterable" || name == "callable", nil
	case *function:
		return name == "callable", nil
	}
	return false, nil
}
