package runtimes_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
)

// passing returns its inputs and records their types.
type passing struct{ seen map[string]runtimes.Tensor }

func (p *passing) Close() error { return nil }
func (p *passing) Run(_ context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	p.seen = in
	return in, nil
}

func TestRetype(t *testing.T) {
	for name, c := range map[string]struct {
		t    runtimes.Tensor
		to   runtimes.Elem
		want []byte // nil: the same tensor
		err  string
	}{
		"half to float":       {runtimes.Tensor{Type: runtimes.Float16, Shape: []int64{2}, Data: []byte{0, 0x3C, 0, 0xC0}}, runtimes.Float32, []byte{0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0}, ""},
		"brain to float":      {runtimes.Tensor{Type: runtimes.BFloat16, Shape: []int64{1}, Data: []byte{0x80, 0x3F}}, runtimes.Float32, []byte{0, 0, 0x80, 0x3F}, ""},
		"float to half":       {runtimes.Tensor{Type: runtimes.Float32, Shape: []int64{1}, Data: []byte{0, 0, 0x80, 0x3F}}, runtimes.Float16, []byte{0, 0x3C}, ""},
		"float to brain":      {runtimes.Tensor{Type: runtimes.Float32, Shape: []int64{1}, Data: []byte{0, 0, 0x80, 0x3F}}, runtimes.BFloat16, []byte{0x80, 0x3F}, ""},
		"int64 to int32":      {runtimes.Tensor{Type: runtimes.Int64, Shape: []int64{2}, Data: []byte{5, 0, 0, 0, 0, 0, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}}, runtimes.Int32, []byte{5, 0, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF}, ""},
		"int32 to int64":      {runtimes.Tensor{Type: runtimes.Int32, Shape: []int64{1}, Data: []byte{0xFE, 0xFF, 0xFF, 0xFF}}, runtimes.Int64, []byte{0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, ""},
		"int32 to uint8":      {runtimes.Tensor{Type: runtimes.Int32, Shape: []int64{2}, Data: []byte{0, 0, 0, 0, 255, 0, 0, 0}}, runtimes.Uint8, []byte{0, 255}, ""},
		"above uint8":         {runtimes.Tensor{Type: runtimes.Int32, Shape: []int64{1}, Data: []byte{0, 1, 0, 0}}, runtimes.Uint8, nil, "256 exceeds the range of uint8"},
		"below uint8":         {runtimes.Tensor{Type: runtimes.Int8, Shape: []int64{1}, Data: []byte{0xFF}}, runtimes.Uint8, nil, "-1 exceeds"},
		"the least int8":      {runtimes.Tensor{Type: runtimes.Int16, Shape: []int64{1}, Data: []byte{0x80, 0xFF}}, runtimes.Int8, []byte{0x80}, ""},
		"below int8":          {runtimes.Tensor{Type: runtimes.Int16, Shape: []int64{1}, Data: []byte{0x7F, 0xFF}}, runtimes.Int8, nil, "-129 exceeds"},
		"above int32":         {runtimes.Tensor{Type: runtimes.Uint32, Shape: []int64{1}, Data: []byte{0, 0, 0, 0x80}}, runtimes.Int32, nil, "2147483648 exceeds"},
		"above int64":         {runtimes.Tensor{Type: runtimes.Uint64, Shape: []int64{1}, Data: []byte{0, 0, 0, 0, 0, 0, 0, 0x80}}, runtimes.Int64, nil, "exceeds the range of int64"},
		"uint16 to uint64":    {runtimes.Tensor{Type: runtimes.Uint16, Shape: []int64{1}, Data: []byte{0xFF, 0xFF}}, runtimes.Uint64, []byte{0xFF, 0xFF, 0, 0, 0, 0, 0, 0}, ""},
		"not a truth":         {runtimes.Tensor{Type: runtimes.Uint8, Shape: []int64{1}, Data: []byte{2}}, runtimes.Bool, nil, "2 exceeds"},
		"an integer as float": {runtimes.Tensor{Type: runtimes.Uint8, Shape: []int64{1}, Data: []byte{2}}, runtimes.Float32, nil, ""},
		"the same":            {runtimes.Tensor{Type: runtimes.Uint8, Shape: []int64{1}, Data: []byte{2}}, runtimes.Uint8, nil, ""},
		"unknown":             {runtimes.Tensor{Type: runtimes.Uint8, Shape: []int64{1}, Data: []byte{2}}, "", nil, ""},
		"invalid":             {runtimes.Tensor{Type: runtimes.Int64, Shape: []int64{1}, Data: []byte{2}}, runtimes.Int32, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := &passing{}
			types := map[string]runtimes.Elem{"x": c.to}
			_, err := runtimes.Retype(f, types, nil).Run(t.Context(), map[string]runtimes.Tensor{"x": c.t})
			out, errOut := runtimes.Retype(f, nil, types).Run(t.Context(), map[string]runtimes.Tensor{"x": c.t})
			if c.err != "" {
				for what, err := range map[string]error{"input x: ": err, "output x: ": errOut} {
					if err == nil || !strings.Contains(err.Error(), c.err) || !strings.HasPrefix(err.Error(), what) {
						t.Errorf("got %v, want %q", err, what+c.err)
					}
				}
				return
			}
			want := c.t
			if c.want != nil {
				want = runtimes.Tensor{Type: c.to, Shape: c.t.Shape, Data: c.want}
			}
			if err != nil || errOut != nil || !cmp.Equal(out["x"], want) {
				t.Errorf("got %v, %v, %v; want %v", out["x"], err, errOut, want)
			}
		})
	}
	m := &modules.Manifest{}
	m.Outputs = []abi.Port{{Name: "y", DType: "uint8"}}
	if got := runtimes.OutputTypes(m); !cmp.Equal(got, map[string]runtimes.Elem{"y": runtimes.Uint8}) || len(runtimes.OutputTypes(nil)) != 0 {
		t.Errorf("got %v", got)
	}
}
