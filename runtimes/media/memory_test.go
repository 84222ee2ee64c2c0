package media

import "testing"

// The cache is bounded, recently used entries stay, and a computed-again entry gets a new id, so
// that positions of the two are not confused.
func TestMemoryIsBounded(t *testing.T) {
	var c Memory
	k := func(n byte) Key { return Key{n} }
	third := make([]float32, maxNumbers/3) // three fit
	ids := map[int32]bool{}
	for n := range byte(3) {
		ids[c.Put(k(n), Vectors{Numbers: third}).ID] = true
	}
	if _, ok := c.Get(k(0)); !ok {
		t.Error("three do not fit")
	}
	ids[c.Put(k(3), Vectors{Numbers: third}).ID] = true
	for n, want := range map[byte]bool{0: true, 1: false, 2: true, 3: true} {
		if _, ok := c.Get(k(n)); ok != want {
			t.Errorf("input %d is remembered: %v", n, ok)
		}
	}
	again := c.Put(k(1), Vectors{Numbers: third})
	if ids[again.ID] || len(ids) != 4 || again.ID >= 0 {
		t.Errorf("ids %v, then %d", ids, again.ID)
	}
	if twice := c.Put(k(1), Vectors{Numbers: third}); twice.ID != again.ID {
		t.Errorf("put twice: %d, then %d", again.ID, twice.ID)
	}
	// One that is larger than all there is room for is remembered alone.
	if c.Put(k(9), Vectors{Numbers: make([]float32, maxNumbers+1)}); len(c.held) != 1 || c.size != maxNumbers+1 {
		t.Errorf("%d are held, of %d numbers", len(c.held), c.size)
	}
}

// The boundaries between the parts of a key matter.
func TestKey(t *testing.T) {
	seen := map[Key]bool{}
	for _, parts := range [][][]byte{{}, {{}}, {[]byte("ab")}, {[]byte("a"), []byte("b")}, {[]byte("ab"), {}}, {{}, []byte("ab")}} {
		k := NewKey(parts...)
		if seen[k] || k != NewKey(parts...) {
			t.Errorf("%q has the key of another", parts)
		}
		seen[k] = true
	}
}
