package onnx

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// typed matches a tensor's name with its type.
var typed = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(.+)=([a-z0-9]+)\[([^\[\]]*)\]$`) })

// ParseValue parses TENSOR or TENSOR=float32[1,T,120]. Without a type, only the
// name is set.
func ParseValue(s string) (Value, error) {
	m := typed().FindStringSubmatch(s)
	if m == nil {
		return Value{Name: s}, nil
	}
	d, ok := DTypeOf(m[2])
	if !ok {
		return Value{}, fmt.Errorf("unknown element type %q, want one such as float32", m[2])
	}
	var dims []any
	for part := range strings.SplitSeq(m[3], ",") {
		part = strings.TrimSpace(part)
		n, err := strconv.ParseUint(part, 10, 31)
		switch {
		case part == "" && m[3] == "":
		case err == nil:
			dims = append(dims, int(n))
		default:
			dims = append(dims, strings.Trim(part, "?"))
		}
	}
	return TensorValue(m[1], d, dims...), nil
}

// ParseShape parses NAME=1x3x48x320.
func ParseShape(s string) (name string, dims []int, err error) {
	name, text, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return "", nil, fmt.Errorf("malformed shape, want NAME=1x3x48x320")
	}
	dims = []int{}
	for part := range strings.SplitSeq(text, "x") {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return "", nil, fmt.Errorf("malformed dimension %q", part)
		}
		dims = append(dims, int(n))
	}
	return name, dims, nil
}
