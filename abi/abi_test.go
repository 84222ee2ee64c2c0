package abi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
)

func TestParseRef(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want abi.Ref
		fail string
	}{
		{in: "core-llm@3.1.0", want: abi.Ref{Name: "core-llm", Constraint: "3.1.0"}},
		{in: "core-llm", want: abi.Ref{Name: "core-llm"}},
		{in: "vision-enc@^1.3", want: abi.Ref{Name: "vision-enc", Constraint: "^1.3"}},
		{in: "vision-enc@>=1.3 <2", want: abi.Ref{Name: "vision-enc", Constraint: ">=1.3 <2"}},
		{in: "reg.example:5000/team/core-llm@3.1", want: abi.Ref{Source: "reg.example:5000/team/core-llm", Name: "core-llm", Constraint: "3.1"}},
		{in: "a@sha256:" + strings.Repeat("0f", 32), want: abi.Ref{Name: "a", Digest: "sha256:" + strings.Repeat("0f", 32)}},
		{in: "a@sha256:" + strings.Repeat("0F", 32), fail: "lower-case hex"},
		{in: "a@sha256:00", fail: "64"},
		{in: "a@sha512:" + strings.Repeat("00", 64), fail: "sha256"},
		{in: "a@", fail: "nothing after the @"},
		{in: "", fail: "no module name"},
		{in: "Core@1", fail: "no module name"},
		{in: "../core@1", fail: "no registry host"},
		{in: "reg.example/../core@1", fail: "path element"},
		{in: "a@one", fail: "no version constraint"},
		{in: strings.Repeat("a", 600), fail: "over the limit"},
	} {
		got, err := abi.ParseRef(tc.in)
		if tc.fail != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("ParseRef(%.40q) = %v, want an error with %q", tc.in, err, tc.fail)
			}
			continue
		}
		if err != nil || got != tc.want {
			t.Errorf("ParseRef(%q) = %+v, %v; want %+v", tc.in, got, err, tc.want)
		}
		if got.String() != tc.in {
			t.Errorf("%q prints as %q", tc.in, got)
		}
	}
}

func TestRefAllows(t *testing.T) {
	for _, tc := range []struct {
		ref     string
		yes, no []string
	}{
		{"a@3.1.0", []string{"3.1.0"}, []string{"3.1.1", "3.1.0-rc.1"}},
		{"a@1.3", []string{"1.3.0", "1.3.9"}, []string{"1.4.0", "1.2.9", "1.3.1-beta"}},
		{"a@^1.3", []string{"1.3.0", "1.9.9"}, []string{"2.0.0", "1.2.0"}},
		{"a@^0.8", []string{"0.8.1"}, []string{"0.9.0"}},
		{"a@~1.3.2", []string{"1.3.5"}, []string{"1.4.0"}},
		{"a@>=1.3 <2", []string{"1.5.0"}, []string{"2.0.0"}},
		{"a@1.0.0-rc.1", []string{"1.0.0-rc.1"}, []string{"1.0.0"}},
		{"a", []string{"0.0.1", "9.0.0"}, []string{"1.0.0-rc.1"}},
	} {
		r, err := abi.ParseRef(tc.ref)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range tc.yes {
			if !r.Allows(semver.MustParse(v)) {
				t.Errorf("%s refuses %s", tc.ref, v)
			}
		}
		for _, v := range tc.no {
			if r.Allows(semver.MustParse(v)) {
				t.Errorf("%s allows %s", tc.ref, v)
			}
		}
	}
}

func shape(t *testing.T, s string) abi.Shape {
	t.Helper()
	var sh abi.Shape
	if err := json.Unmarshal([]byte(s), &sh); err != nil {
		t.Fatal(err)
	}
	return sh
}

func TestConnect(t *testing.T) {
	for _, tc := range []struct {
		name    string
		out, in string
		dout    abi.DType
		bind    map[string]int64 // "scope.name" → size, set before
		want    []abi.MismatchKind
	}{
		{name: "names bind", out: `["T_enc","D_enc"]`, in: `["T","D"]`},
		{name: "size meets name", out: `["T_enc",96]`, in: `["T","D"]`},
		{name: "name has another size", out: `["T_enc",96]`, in: `["T","D"]`, bind: map[string]int64{"in.D": 80}, want: []abi.MismatchKind{abi.MismatchSize}},
		{name: "both named, both bound", out: `["T","D"]`, in: `["T","D"]`, bind: map[string]int64{"in.D": 80, "out.D": 96}, want: []abi.MismatchKind{abi.MismatchSize}},
		{name: "sizes differ", out: `[4,96]`, in: `[4,80]`, want: []abi.MismatchKind{abi.MismatchSize}},
		{name: "rank", out: `[4,4,96]`, in: `["T","D"]`, want: []abi.MismatchKind{abi.MismatchRank}},
		{name: "dtype too", out: `[4]`, in: `[5]`, dout: abi.FP16, want: []abi.MismatchKind{abi.MismatchSize, abi.MismatchDType}},
		{name: "d_model is one number", out: `["d_model"]`, in: `["d_model"]`, bind: map[string]int64{"x.d_model": 5}},
		{name: "d_model against another build-wide name", out: `["d_model"]`, in: `["vocab_size"]`, want: []abi.MismatchKind{abi.MismatchName}},
		{name: "d_model bound elsewhere", out: `["W"]`, in: `["d_model"]`, bind: map[string]int64{"x.d_model": 5, "out.W": 6}, want: []abi.MismatchKind{abi.MismatchSize}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b abi.Binding
			for k, n := range tc.bind {
				scope, name, _ := strings.Cut(k, ".")
				if m := b.Set(scope, name, n, scope); m != nil {
					t.Fatal(m)
				}
			}
			dout := tc.dout
			if dout == "" {
				dout = abi.FP32
			}
			var got []abi.MismatchKind
			for _, m := range abi.Connect("out", abi.Port{Name: "p", Shape: shape(t, tc.out), DType: dout}, "in", abi.Port{Name: "p", Shape: shape(t, tc.in), DType: abi.FP32}, &b) {
				got = append(got, m.What)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// A name that met another takes its size, through any number of joints.
func TestBindingCarriesSizes(t *testing.T) {
	var b abi.Binding
	port := func(dims string) abi.Port { return abi.Port{Name: "p", Shape: shape(t, dims), DType: abi.FP32} }
	abi.Connect("a", port(`["X"]`), "b", port(`["Y"]`), &b)
	abi.Connect("b", port(`["Y"]`), "c", port(`["Z"]`), &b)
	b.Set("c", "Z", 7, "c says")
	for scope, name := range map[string]string{"a": "X", "b": "Y", "c": "Z"} {
		if n, by, ok := b.Size(scope, name); !ok || n != 7 || by != "c says" {
			t.Errorf("%s.%s = %d by %q, %v", scope, name, n, by, ok)
		}
	}
	if m := b.Set("a", "X", 8, "a says"); m == nil || !strings.Contains(m.Error(), "7 (c says)") || !strings.Contains(m.Error(), "8 (a says)") {
		t.Errorf("a second size gave %v", m)
	}
}

func TestToolCall(t *testing.T) {
	c, err := abi.ParseToolCall(`{"tool":"chartqa","args":{"image_ref":"#img0","ops":["extract_table","calc_slope"]}}`)
	if err != nil || c.Tool != "chartqa" || len(c.Args) != 2 {
		t.Fatalf("the playbook's example: %+v, %v", c, err)
	}
	for _, bad := range []string{"", "{}", `{"tool":"a"} {"tool":"b"}`, `{"tool":"a","code":1}`, `{"tool":1}`, `["tool"]`, `{"tool":"` + strings.Repeat("a", abi.MaxToolCall) + `"}`} {
		if _, err := abi.ParseToolCall(bad); err == nil {
			t.Errorf("%.60q accepted", bad)
		}
	}
	line, err := abi.FormatToolResult(map[string]any{"text": "a<b\nc"})
	if err != nil || line != `{"text":"a<b\nc"}` {
		t.Errorf("result line is %q, %v", line, err)
	}
}

func FuzzParseRef(f *testing.F) {
	f.Add("registry.example/team/core-llm@^3.1")
	f.Add("a@sha256:" + strings.Repeat("0f", 32))
	f.Fuzz(func(t *testing.T, s string) {
		r, err := abi.ParseRef(s)
		if err != nil {
			return
		}
		if again, err := abi.ParseRef(r.String()); err != nil || again != r {
			t.Fatalf("%q reads as %+v, which reads as %+v, %v", s, r, again, err)
		}
	})
}
