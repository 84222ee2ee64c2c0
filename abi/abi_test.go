package abi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
)

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

// A name joined with another one takes its size, through any number of joins.
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

func TestFormatToolResult(t *testing.T) {
	line, err := abi.FormatToolResult(map[string]any{"text": "a<b\nc"})
	if err != nil || line != `{"text":"a<b\nc"}` {
		t.Errorf("result line is %q, %v", line, err)
	}
}
