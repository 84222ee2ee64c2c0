package schemas

import (
	"strings"
	"testing"
)

// Assignments are one mapping; a flow mapping needs no name.
func TestAssign(t *testing.T) {
	for _, c := range []struct {
		in   []string
		want string // NAME=VALUE of a, or a part of the error
	}{
		{[]string{"a=1", "b=x"}, "1 x"},
		{[]string{"a"}, "want NAME=VALUE"},
		{[]string{"a="}, "want NAME=VALUE"},
		{[]string{"a=1\nb: 2"}, "one line of YAML"},
		{[]string{"a=1", "a=2"}, "a=1 a=2: "},
		{[]string{"a=x"}, "a=x: "},
	} {
		var into struct {
			A int    `json:"a"`
			B string `json:"b"`
		}
		err := Assign(c.in, &into)
		switch {
		case err == nil && (c.want != "1 x" || into.A != 1 || into.B != "x"):
			t.Errorf("%q: %+v", c.in, into)
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%q: %v", c.in, err)
		}
	}
}
