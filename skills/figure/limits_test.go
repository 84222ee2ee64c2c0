package figure

import (
	"strings"
	"testing"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
)

// TestLimits holds each limit on either side.
func TestLimits(t *testing.T) {
	table := func(text string) error { _, err := readTable(free{}, []byte(text)); return err }
	for _, c := range []struct {
		name  string
		limit int
		try   func(n int) error
	}{
		{"maxTable", maxTable, func(n int) error { return table("a,1" + strings.Repeat("\n", n-3)) }},
		{"maxRows of CSV", maxRows, func(n int) error { return table(strings.Repeat("a,1\n", n)) }},
		{"maxRows of a list", maxRows, func(n int) error { return table("[" + strings.Repeat(`["a",1],`, n-1) + `["a",1]]`) }},
		{"maxRows of an object", maxRows, func(n int) error { return table("{" + strings.Repeat(`"a":1,`, n-1) + `"a":1}`) }},
		{"maxRows of lists", maxRows, func(n int) error {
			return table(`{"labels":[` + strings.Repeat(`"a",`, n-1) + `"a"],"values":[` + strings.Repeat("1,", n-1) + "1]}")
		}},
		{"maxCell", maxCell, func(n int) error { return table(strings.Repeat("a", n) + ",1\n") }},
		{"maxOps", maxOps, func(n int) error {
			f := func(c *builtin.Call) (any, error) { return Chart(nil)(c) }
			g, err := builtin.Executor{Funcs: map[string]builtin.Func{"f": f}}.Prepare(t.Context(), sandbox.Program{Name: "f", Limits: modules.Effective{TimeoutMS: 20_000}})
			if err != nil {
				return err
			}
			defer g.Close()
			csv := strings.NewReader("a,1\n")
			_, err = g.Call(t.Context(), sandbox.Call{
				Input:  []byte(`{"image_ref":"#t","ops":[` + strings.Repeat(`"sum",`, n-1) + `"sum"]}`),
				Assets: []sandbox.Asset{{Name: "t", Data: csv, Size: csv.Size()}},
			})
			return err
		}},
	} {
		if err := c.try(c.limit); err != nil {
			t.Errorf("%s at the limit: %v", c.name, err)
		}
		if err := c.try(c.limit + 1); err == nil {
			t.Errorf("%s: %d accepted", c.name, c.limit+1)
		}
	}
	for side, want := range map[int]string{minSide - 1: "too small", minSide: "axis"} {
		for _, size := range [][2]int{{side, minSide}, {minSide, side}} {
			_, err := ReadChart(free{}, &Set{}, make([]byte, 3*size[0]*size[1]), size[0], size[1])
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: got %v, want %q", size, err, want)
			}
		}
	}
}
