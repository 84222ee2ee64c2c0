package dataset

// Parts are the contents of Tokens, for a program that reads them in files.
// They alias its memory.
type Parts struct {
	IDs     []byte // little endian
	Width   int    // bytes of an id: 2 or 4
	Starts  []int64
	Context [][3]int64 // [from, to, end]: not learned; the target before from is end, or -1
}

// Parts returns the contents of t.
func (t *Tokens) Parts() Parts {
	p := Parts{IDs: t.ids, Width: t.width, Starts: t.docs}
	for _, s := range t.context {
		p.Context = append(p.Context, [3]int64{s.from, s.to, s.end})
	}
	return p
}

// Skip moves past the next window and returns the position of its first token.
func (l *Loader) Skip() int {
	if l.pos.Next == len(l.order) {
		l.pos.Epoch, l.pos.Next = l.pos.Epoch+1, 0
		l.shuffle()
	}
	at := l.offset + int(l.order[l.pos.Next])*l.t
	l.pos.Next++
	return at
}
