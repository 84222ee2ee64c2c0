package schemas_test

import (
	"testing"

	"mm-abi.org/mm/schemas"
)

func TestSides(t *testing.T) {
	for _, tc := range []struct {
		name, in, ours, theirs string
		line                   int
	}{
		{"none", "a\n=======\nb\n", "", "", 0},
		{"one", "a\n<<<<<<< HEAD\nb\n=======\nc\nd\n>>>>>>> x\ne\n", "a\nb\ne\n", "a\nc\nd\ne\n", 2},
		{"ancestor", "<<<<<<<\r\nb\r\n||||||| 1234\nx\n=======\r\n>>>>>>>\n", "b\r\n", "", 1},
		{"two", "<<<<<<< a\n1\n=======\n2\n>>>>>>> b\n<<<<<<< a\n3\n=======\n4\n>>>>>>> b", "1\n3\n", "2\n4\n", 1},
		{"open", "a\n<<<<<<< a\n1\n", "", "", 2},
		{"without a middle", "a\n<<<<<<< a\n1\n>>>>>>> b\n", "", "", 2},
		{"nested", "<<<<<<< a\n<<<<<<< b\n=======\n>>>>>>> c\n", "", "", 1},
		{"indented", " <<<<<<< a\n", "", "", 0},
		{"longer", "========\n<<<<<<<<\n", "", "", 0},
	} {
		ours, theirs, line := schemas.Sides([]byte(tc.in))
		if string(ours) != tc.ours || string(theirs) != tc.theirs || line != tc.line {
			t.Errorf("%s: got %q, %q, line %d", tc.name, ours, theirs, line)
		}
	}
}
