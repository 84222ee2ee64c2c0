package tensor

import "testing"

// TestTypes: every type that ggml has is known by name, and nothing else.
func TestTypes(t *testing.T) {
	gone := map[Type]bool{4: true, 5: true, 31: true, 32: true, 33: true, 36: true, 37: true, 38: true}
	for id := range Type(60) {
		known := id < 43 && !gone[id]
		if id.Known() != known || (id.BlockSize() > 0) != known || (id.BlockBytes() > 0) != known {
			t.Errorf("%d: known %v, blocks of %d in %d bytes", id, id.Known(), id.BlockSize(), id.BlockBytes())
		}
		back, err := ParseType(id.String())
		if known && (err != nil || back != id) || !known && err == nil {
			t.Errorf("%d is called %q, which is %d, %v", id, id, back, err)
		}
	}
	for _, name := range []string{"", "q8_0", "type(4)"} {
		if id, err := ParseType(name); err == nil {
			t.Errorf("%q is the type %d", name, id)
		}
	}
}
