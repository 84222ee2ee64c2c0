package executorch

import "slices"

// arenaAlign is the alignment of tensors in the arena.
const arenaAlign = 16

// storage is memory of the arena from one call to another, which tensors of equal
// contents share.
type storage struct {
	size        int64
	first, last int // calls
	offset      int64
}

// plan assigns offsets to the storages of a method: the largest first, each at the
// lowest place that is free during its calls.
func (m *Method) plan() {
	var all []*storage
	use := func(v int, at int) {
		t, ok := m.Values[v].(*Tensor)
		if !ok || t.storage == nil {
			return
		}
		if s := t.storage; s.first > s.last {
			s.first, s.last = at, at
			all = append(all, s)
		} else {
			s.last = max(s.last, at)
		}
	}
	for _, v := range m.Inputs {
		use(v, 0)
	}
	for i, c := range m.Calls {
		for _, v := range c.Args {
			if list, ok := m.Values[v].(Values); ok {
				for _, w := range list {
					use(w, i)
				}
			}
			use(v, i)
		}
	}
	for _, v := range m.Outputs {
		use(v, len(m.Calls))
	}
	m.place(all)
	for _, v := range m.Values {
		if t, ok := v.(*Tensor); ok && t.storage != nil {
			t.Offset = t.storage.offset
		}
	}
}

func (m *Method) place(all []*storage) {
	slices.SortStableFunc(all, func(a, b *storage) int { return int(min(1, max(-1, b.size-a.size))) })
	for i, s := range all {
		var busy []*storage
		for _, other := range all[:i] {
			if other.first <= s.last && s.first <= other.last {
				busy = append(busy, other)
			}
		}
		slices.SortFunc(busy, func(a, b *storage) int { return int(min(1, max(-1, a.offset-b.offset))) })
		for _, other := range busy {
			if s.offset+s.size <= other.offset {
				break
			}
			s.offset = max(s.offset, (other.offset+other.size+arenaAlign-1)/arenaAlign*arenaAlign)
		}
		m.Arena = max(m.Arena, s.offset+s.size)
	}
}
