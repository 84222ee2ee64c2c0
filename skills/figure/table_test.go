package figure

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train/dataset/scene"
)

func TestReadTable(t *testing.T) {
	for _, c := range []struct {
		text string
		want Table
		err  string
	}{
		{"a,1\nb,2\n", Table{[]string{"a", "b"}, []float64{1, 2}}, ""},
		{"\ufeffname;sold\na;1,5\n", Table{[]string{"a"}, []float64{15}}, ""}, // a comma groups thousands
		{"name\tsold\na\t12 %\nb\t$3\n", Table{[]string{"a", "b"}, []float64{12, 3}}, ""},
		{"a,b,c\n1,2,3\n", Table{[]string{"a", "b", "c"}, []float64{1, 2, 3}}, ""},
		{`{"b": 2, "a": 1}`, Table{[]string{"b", "a"}, []float64{2, 1}}, ""},
		{`[["a", 1], {"label": "b", "value": 2}]`, Table{[]string{"a", "b"}, []float64{1, 2}}, ""},
		{`{"labels": ["a"], "values": [1]}`, Table{[]string{"a"}, []float64{1}}, ""},
		{`{"labels": ["a"], "values": [1, 2]}`, Table{}, "table has 1 labels and 2 values"},
		{`{"a": "x"}`, Table{}, `parsing the table: "a": json: cannot unmarshal string into Go value of type float64`},
		{`[{"label": "b"}]`, Table{}, `table row 1: want [label, number] or {"label", "value"}`},
		{`[{"value": 1}]`, Table{}, `table row 1: want [label, number] or {"label", "value"}`},
		{`[1]`, Table{}, `table row 1: want [label, number] or {"label", "value"}`},
		{"a,1\nb,x\n", Table{}, `table row 2: invalid number "x"`},
		{"a\n", Table{}, "table row 1: got one cell, want a label and a number"},
		{"", Table{}, "table has no row of a label and a number"},
	} {
		got, err := readTable(free{}, []byte(c.text))
		message := ""
		if err != nil {
			message = err.Error()
			got = Table{}
		}
		if diff := cmp.Diff(c.want, got); diff != "" || message != c.err {
			t.Errorf("%q: %q %s", c.text, message, diff)
		}
	}
}

func TestSlope(t *testing.T) {
	for _, c := range []struct {
		table Table
		want  string
	}{
		{Table{[]string{"a"}, []float64{1}}, ""},
		{Table{[]string{"a", "b"}, []float64{1, 3}}, "2"},
		{Table{[]string{"2020", "2024"}, []float64{1, 3}}, "0.5"},
		{Table{[]string{"1", "1"}, []float64{1, 3}}, ""},
	} {
		if v, err := c.table.Answer("calc_slope"); (err == nil) != (c.want != "") || err == nil && v != json.Number(c.want) {
			t.Errorf("%v: got %v, %v, want %q", c.table, v, err, c.want)
		}
	}
	if rows := []float64{40, 30, 20, 10}; evenRows(rows) == nil || evenRows([]float64{40, 30, 15, 10}) != nil {
		t.Error("evenRows")
	}
}

func TestTooLarge(t *testing.T) {
	table := Table{[]string{"a", "b"}, []float64{1e308, 1e308}}
	for _, op := range []string{"sum", "mean"} {
		if v, err := table.Answer(op); err == nil {
			t.Errorf("%s: %v", op, v)
		}
	}
}

// FuzzTable checks that any text is an error or a table that can be queried.
func FuzzTable(f *testing.F) {
	for _, s := range []string{"a,1\nb,2", `{"a":1}`, `[["a",1]]`, "a;1\n\"b", `{"labels":["a"],"values":[1e308]}`} {
		f.Add([]byte(s), "ratio")
	}
	f.Fuzz(func(t *testing.T, data []byte, op string) {
		table, err := readTable(free{}, data)
		if err != nil {
			return
		}
		if len(table.Labels) != len(table.Values) || len(table.Values) == 0 {
			t.Fatalf("%+v", table)
		}
		if v, err := table.Answer(op); err == nil {
			if _, err := json.Marshal(v); err != nil {
				t.Errorf("%s of %q: %v", op, data, err)
			}
		}
	})
}

// FuzzReadTable checks that any pixels are an error or a chart.
func FuzzReadTable(f *testing.F) {
	src, err := scene.New(scene.Options{Kinds: []string{scene.Charts}, Size: 64})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(src.Make(0).RGB, 64)
	f.Add(make([]byte, 3*50*60), 50)
	set, err := Letters()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, pix []byte, w int) {
		if w < 1 || w > 128 || len(pix) > 3*128*128 {
			return
		}
		h := len(pix) / 3 / w
		table, err := ReadChart(free{}, set, pix[:3*w*h], w, h)
		if err == nil && len(table.Labels) != len(table.Values) {
			t.Errorf("%+v", table)
		}
	})
}
