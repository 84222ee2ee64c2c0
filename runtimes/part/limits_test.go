package part

import (
	"bytes"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/runtimetest"
)

func TestMaxFill(t *testing.T) {
	s := module("dec", port("z", abi.FP32), abi.Port{})
	for _, c := range []struct {
		dims []int64
		ok   bool
	}{
		{[]int64{maxFill}, true}, {[]int64{maxFill + 1}, false}, {[]int64{2, maxFill / 2}, true}, {[]int64{2, maxFill/2 + 1}, false},
		{[]int64{1 << 40, 1 << 40}, false}, {[]int64{0}, false}, {[]int64{-1}, false}, {nil, true},
	} {
		p := port("noise", abi.FP32)
		p.Shape = nil
		for _, d := range c.dims {
			p.Shape = append(p.Shape, abi.Dim{Size: d})
		}
		if _, _, err := fillShape(s, p); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.dims, err)
		}
	}
}

func TestMaxWords(t *testing.T) {
	for n, cut := range map[int]bool{maxWords + 10: false, maxWords + 11: true} {
		var b bytes.Buffer
		words(&b, 0, 0, 10, strings.Repeat("é", n))
		if got := strings.Count(b.String(), "é"); strings.Contains(b.String(), "…") != cut || cut && got != maxWords+9 || !cut && got != n {
			t.Errorf("%d characters: %s", n, b.String())
		}
	}
}

// A session bounds its inputs by MaxInput.
func TestMaxInput(t *testing.T) {
	s, err := Open(t.Context(), runtimetest.Build(t, false, "image-enc"), Options{Engines: []runtimes.Engine{&runtimetest.Engine{Called: "first"}}})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{MaxInput: "unrecognized format", MaxInput + 1: "limit"} {
		_, err := s.Function("image-enc").Compute(t.Context(), map[string]Argument{"": {Input: modality.Input{Data: make([]byte, n)}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v, want %q", n, err, want)
		}
	}
}
