package card

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func results(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/results.json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Results become a statement and come back equal; the digest of a suite is that of its
// configuration, however the file is indented.
func TestStatement(t *testing.T) {
	r, err := Read(results(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []Figure{{Metric: "acc", Filter: "none", Value: 0.25, Low: 0.04558726080970055, High: 0.6993581574175981, Method: "Wilson, 95 %", N: 4, Higher: true}}
	if diff := cmp.Diff(want, r.Tasks[0].Figures[:1]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r.Target != "laptop" || r.Engine != "core" || !strings.HasPrefix(r.Tasks[0].Suite, "sha256:fb29372bd476") {
		t.Errorf("got %+v", r)
	}
	for _, c := range []struct {
		kept   []string
		result string
	}{{nil, "WARNED"}, {[]string{"choose/acc,none ≥ 0.2"}, "PASSED"}} {
		data, err := r.Predicate(c.kept)
		if err != nil {
			t.Fatal(err)
		}
		list, missed, err := Parse(data)
		if err != nil || missed || !strings.Contains(string(data), `"result":"`+c.result+`"`) {
			t.Fatalf("%v %v %s", missed, err, data)
		}
		if diff := cmp.Diff([]Evaluation{r.Evaluation}, list); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// Each fault of results is refused by name.
func TestReadFaults(t *testing.T) {
	type object = map[string]any
	in := func(d object, keys ...string) object {
		for _, k := range keys {
			d = d[k].(object)
		}
		return d
	}
	for _, c := range []struct {
		name, want string
		change     func(d object)
	}{
		{"good", "", func(object) {}},
		{"no digest", "mm.digest", func(d object) { delete(in(d, "mm"), "digest") }},
		{"no engine", "engine: missing", func(d object) { delete(in(d, "mm"), "engine") }},
		{"no tasks", "tasks: none", func(d object) { d["results"] = object{} }},
		{"no config", "configs.choose: missing", func(d object) { delete(in(d, "configs"), "choose") }},
		{"no intervals", "task choose: no figures", func(d object) { delete(in(d, "intervals"), "choose") }},
		{"no low", "low or high is missing", func(d object) { delete(in(d, "intervals", "choose", "acc,none"), "low") }},
		{"no method", "method of the interval", func(d object) { delete(in(d, "intervals", "choose", "acc,none"), "method") }},
		{"n", "got n 0", func(d object) { in(d, "intervals", "choose", "acc,none")["n"] = 0 }},
		{"clusters", "5 clusters of 4", func(d object) { in(d, "intervals", "choose", "acc,none")["clusters"] = 5 }},
		{"reversed", "got the interval 0.9", func(d object) { in(d, "intervals", "choose", "acc,none")["low"] = 0.9 }},
		{"text", "want a number", func(d object) { in(d, "results", "choose")["acc,none"] = "high" }},
		{"data", "task choose: data", func(d object) { in(d, "mm", "data")["choose"] = "abc" }},
		{"shots", "negative", func(d object) { in(d, "n-shot")["choose"] = -1 }},
		{"metric", "want METRIC,FILTER", func(d object) {
			in(d, "intervals", "choose")[",none"] = in(d, "intervals", "choose", "acc,none")
			in(d, "results", "choose")[",none"] = 0.5
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d object
			if err := json.Unmarshal(results(t), &d); err != nil {
				t.Fatal(err)
			}
			c.change(d)
			data, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = Read(data); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A test result of another program is valid without figures; a contradictory one is not.
func TestCheck(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"result":"PASSED","configuration":[{"uri":"https://example.org/x"}]}`, ""},
		{`{"result":"FAILED","configuration":[{"name":"x","annotations":{"engine":5}}],"failedTests":["a"]}`, ""},
		{`{"result":"GOOD","configuration":[{"name":"x"}]}`, "result: got"},
		{`{"result":"PASSED","configuration":[{"name":"x"}],"failedTests":["a"]}`, "1 failed tests"},
		{`{"result":"PASSED","configuration":[]}`, "configuration: none"},
		{`{"result":"PASSED","configuration":[{}]}`, "configuration[0]"},
		{`{"result":"PASSED","configuration":[{"name":"x","annotations":{"figures":5}}]}`, "annotations"},
		{`{"result":"PASSED","configuration":[{"name":"x","annotations":{"engine":"e","figures":[]}}]}`, "no figures"},
		{`[]`, "test result"},
	} {
		err := Check([]byte(c.in))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.in, err, c.want)
		}
	}
}

func bound(x float64) *float64 { return &x }

// A demand distinguishes a missed limit from an absent figure.
func TestDemand(t *testing.T) {
	r, err := Read(results(t))
	if err != nil {
		t.Fatal(err)
	}
	data, err := r.Predicate(nil)
	if err != nil {
		t.Fatal(err)
	}
	d := Demand{Suite: "choose", Metric: "acc"}
	for _, c := range []struct {
		name, want string
		missed     bool
		change     func(*Demand)
	}{
		{"any", "", false, func(*Demand) {}},
		{"least kept", "", false, func(d *Demand) { d.AtLeast = bound(0.25) }},
		{"least missed", "want choose acc,none ≥ 0.26", true, func(d *Demand) { d.AtLeast = bound(0.26) }},
		{"most kept", "", false, func(d *Demand) { d.AtMost = bound(0.25) }},
		{"most missed", "≤ 0.24", true, func(d *Demand) { d.AtMost = bound(0.24) }},
		{"not sure", "surely", true, func(d *Demand) { d.AtLeast, d.Sure = bound(0.25), true }},
		{"sure", "", false, func(d *Demand) { d.AtMost, d.Sure = bound(0.7), true }},
		{"few", "n of at least 5", false, func(d *Demand) { d.N = 5 }},
		{"enough", "", false, func(d *Demand) { d.N = 4 }},
		{"suite", "no figure", false, func(d *Demand) { d.Suite = "other" }},
		{"filter", "no figure acc,strict", false, func(d *Demand) { d.Filter = "strict" }},
		{"digest", "got the suite", false, func(d *Demand) { d.Digest = "sha256:" + strings.Repeat("0", 64) }},
		{"right digest", "", false, func(d *Demand) { d.Digest = r.Tasks[0].Suite }},
	} {
		one := d
		c.change(&one)
		err := one.Judge(data)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) || errors.Is(err, ErrMissed) != c.missed {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	failed := strings.Replace(string(data), "WARNED", "FAILED", 1)
	if err := d.Judge([]byte(failed)); !errors.Is(err, ErrMissed) {
		t.Errorf("a failed result: %v", err)
	}
	if err := d.Judge([]byte("{}")); err == nil {
		t.Error("an invalid result is accepted")
	}
}

func TestLimits(t *testing.T) {
	r, err := Read(results(t))
	if err != nil {
		t.Fatal(err)
	}
	for n, ok := range map[int]bool{MaxResults: true, MaxResults + 1: false} {
		data := append(results(t), strings.Repeat(" ", n-len(results(t)))...)
		if _, err := Read(data); (err == nil) != ok {
			t.Errorf("MaxResults: %d bytes: %v", n, err)
		}
	}
	for n, ok := range map[int]bool{maxFigures: true, maxFigures + 1: false} {
		e := r.Evaluation
		e.Tasks = e.Tasks[:1]
		e.Tasks[0].Figures = nil
		for i := range n {
			f := Figure{Metric: fmt.Sprint(i), Filter: "none", Method: "m", N: 1}
			e.Tasks[0].Figures = append(e.Tasks[0].Figures, f)
		}
		if err := e.check(); (err == nil) != ok {
			t.Errorf("maxFigures: %d: %v", n, err)
		}
	}
	for n, ok := range map[int]bool{maxName: true, maxName + 1: false} {
		f := Figure{Metric: strings.Repeat("m", n-2), Filter: "f", Method: "m", N: 1}
		if err := f.check(); (err == nil) != ok {
			t.Errorf("maxName: %d: %v", n, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"result":"PASSED","configuration":[{"name":"x","digest":{"sha256":"00"},"annotations":{"engine":"e","figures":[{"metric":"acc","filter":"none","n":1,"method":"m"}]}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, _, err := Parse(data)
		if err != nil {
			return
		}
		for _, e := range list {
			if e.check() != nil {
				t.Fatal("an evaluation with faults is accepted")
			}
			if _, err := e.Predicate(nil); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"results":{"t":{"acc,none":1}},"configs":{"t":{}},"intervals":{"t":{"acc,none":{"low":0,"high":1,"method":"m","n":1}}},"mm":{"digest":"sha256:0","engine":"e"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Read(data)
		if err == nil && r.check() != nil {
			t.Fatal("results with faults are accepted")
		}
	})
}
