package qnnlib

import (
	"strings"
	"testing"
	"unsafe"
)

// The offsets of a tensor's fields match QNN's interface 2.
func TestTensor(t *testing.T) {
	var x tensor
	for name, c := range map[string]struct{ at, want uintptr }{
		"id": {unsafe.Offsetof(x.id), 8}, "name": {unsafe.Offsetof(x.name), 16}, "kind": {unsafe.Offsetof(x.kind), 24}, "dtype": {unsafe.Offsetof(x.dtype), 32},
		"quantisation": {unsafe.Offsetof(x.defined), 40}, "encoding": {unsafe.Offsetof(x.encoding), 44}, "scale": {unsafe.Offsetof(x.scale), 48}, "offset": {unsafe.Offsetof(x.offset), 52},
		"rank": {unsafe.Offsetof(x.rank), 80}, "dims": {unsafe.Offsetof(x.dims), 88}, "memory": {unsafe.Offsetof(x.memory), 96}, "data": {unsafe.Offsetof(x.data), 104},
		"size": {unsafe.Offsetof(x.size), 112}, "dynamic": {unsafe.Offsetof(x.dynamic), 120}, "sparse": {unsafe.Offsetof(x.sparse), 128}, "produced": {unsafe.Offsetof(x.produced), 140},
		"the end": {unsafe.Sizeof(x), tensorBytes},
	} {
		if c.at != c.want {
			t.Errorf("%s lies at %d, not at %d", name, c.at, c.want)
		}
	}
}

// An error has its code, the library's text and the usual cause.
func TestFailed(t *testing.T) {
	for _, c := range []struct {
		err  Failed
		want []string
	}{
		{Failed{"contextCreateFromBinary", 5000, "INVALID"}, []string{"contextCreateFromBinary returned 5000", "INVALID", "newer SDK"}},
		{Failed{"contextCreateFromBinary", 5005, ""}, []string{"5005", "blob of the context is damaged"}},
		{Failed{"systemContextGetBinaryInfo", 30010, ""}, []string{"30010", "no whole context"}},
		{Failed{"graphExecute", 6001, ""}, []string{"graphExecute returned 6001"}},
	} {
		for _, w := range c.want {
			if !strings.Contains(c.err.Error(), w) {
				t.Errorf("%v lacks %q", &c.err, w)
			}
		}
	}
}

// The bytes of a port follow from its shape and type; an invalid port has none.
func TestPortBytes(t *testing.T) {
	for _, c := range []struct {
		dtype uint32
		dims  []uint32
		want  uint32
	}{{0x0232, []uint32{2, 8}, 64}, {0x0408, []uint32{3}, 3}, {0x0216, nil, 2}, {0x0232, []uint32{0}, 0}, {0x0999, []uint32{2}, 0}, {0x0232, []uint32{1 << 20, 1 << 20}, 0}} {
		p := port{raw: tensor{dtype: c.dtype}, dims: c.dims}
		if got := p.bytes(); got != c.want {
			t.Errorf("%v of 0x%x has %d bytes, not %d", c.dims, c.dtype, got, c.want)
		}
	}
}
