package tensor

import "testing"

// Every type of ggml is known by name, and no other.
func TestTypes(t *testing.T) {
	removed := map[Type]bool{4: true, 5: true, 31: true, 32: true, 33: true, 36: true, 37: true, 38: true}
	for id := range Type(60) {
		exists := id < 43 && !removed[id]
		if id.Known() != exists || (id.BlockSize() > 0) != exists || (id.BlockBytes() > 0) != exists {
			t.Errorf("%d: Known %v, blocks of %d in %d bytes", id, id.Known(), id.BlockSize(), id.BlockBytes())
		}
		back, err := ParseType(id.String())
		if exists && (err != nil || back != id) || !exists && err == nil {
			t.Errorf("%d: name %q parses as %d, %v", id, id, back, err)
		}
	}
	for _, name := range []string{"", "q8_0", "type(4)"} {
		if id, err := ParseType(name); err == nil {
			t.Errorf("%q: parsed as type %d", name, id)
		}
	}
}
