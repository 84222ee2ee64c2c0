package abi

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Dim is a dimension of a shape: a fixed size, or a name that a build binds to a size.
type Dim struct {
	Name string // "T_enc", "d_model"; empty if the size is fixed
	Size int64  // at least 1 if Name is empty
}

// String returns the size or the name.
func (d Dim) String() string {
	if d.Name != "" {
		return d.Name
	}
	return strconv.FormatInt(d.Size, 10)
}

// MarshalJSON encodes a fixed size as a number and a name as a string.
func (d Dim) MarshalJSON() ([]byte, error) {
	if d.Name != "" {
		return json.Marshal(d.Name)
	}
	return json.Marshal(d.Size)
}

// UnmarshalJSON decodes a number of at least 1 or a name.
func (d *Dim) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		d.Size = 0
		return json.Unmarshal(b, &d.Name)
	}
	d.Name = ""
	if err := json.Unmarshal(b, &d.Size); err != nil {
		return err
	}
	if d.Size < 1 {
		return fmt.Errorf("dimension %d out of range, want at least 1", d.Size)
	}
	return nil
}

// Shape lists a tensor's dimensions, outermost first, without the batch.
type Shape []Dim

// String formats a shape as in manifests: [T_enc, 512].
func (s Shape) String() string {
	parts := make([]string, len(s))
	for i, d := range s {
		parts[i] = d.String()
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// Binding holds the sizes of a build's named dimensions. A name belongs to a scope (a
// module); d_model, vocab_size and max_seq belong to the build and are the same number in
// every scope. Two names that are connected become one. A name has one size; a second,
// different one is a [Mismatch]. The zero value is an empty Binding.
// [Mismatch]. The zero value is empty and ready.
type Binding struct {
	parent map[string]string
	size   map[string]bound
}

type bound struct {
	n  int64
	by string
}

// buildWide reports whether a dimension name is the same number in every module.
func buildWide(name string) bool {
	return name == "d_model" || name == "vocab_size" || name == "max_seq"
}

func (b *Binding) key(scope, name string) string {
	if buildWide(name) {
		return name
	}
	return scope + "." + name
}

func (b *Binding) root(k string) string {
	for b.parent[k] != "" {
		k = b.parent[k]
	}
	return k
}

// Size returns the size of name in scope, and what bound it.
func (b *Binding) Size(scope, name string) (n int64, by string, ok bool) {
	v, ok := b.size[b.root(b.key(scope, name))]
	return v.n, v.by, ok
}

// Set binds name in scope to n on behalf of by ("vision-proj@1.2.0 params.d_model"). If the
// name has another size, it returns a mismatch.
func (b *Binding) Set(scope, name string, n int64, by string) *Mismatch {
	k := b.root(b.key(scope, name))
	if old, ok := b.size[k]; ok {
		if old.n != n {
			return &Mismatch{What: MismatchSize, Dim: name, Out: sized(old), In: fmt.Sprintf("%d (%s)", n, by)}
		}
		return nil
	}
	if b.size == nil {
		b.size = map[string]bound{}
	}
	b.size[k] = bound{n, by}
	return nil
}

func sized(v bound) string { return fmt.Sprintf("%d (%s)", v.n, v.by) }

// unify joins two dimensions.
func (b *Binding) unify(outScope string, out Dim, inScope string, in Dim) *Mismatch {
	switch {
	case out.Name == "" && in.Name == "":
		if out.Size != in.Size {
			return &Mismatch{What: MismatchSize, Out: out.String(), In: in.String()}
		}
		return nil
	case out.Name == "":
		m := b.Set(inScope, in.Name, out.Size, outScope)
		if m != nil {
			m.Out, m.In = m.In, m.Out // Set puts the older side first
		}
		return m
	case in.Name == "":
		return b.Set(outScope, out.Name, in.Size, inScope)
	}
	return b.join(b.root(b.key(outScope, out.Name)), b.root(b.key(inScope, in.Name)), out.Name)
}

func (b *Binding) join(x, y, name string) *Mismatch {
	if x == y {
		return nil
	}
	sx, okx := b.size[x]
	sy, oky := b.size[y]
	if okx && oky && sx.n != sy.n {
		return &Mismatch{What: MismatchSize, Dim: name, Out: sized(sx), In: sized(sy)}
	}
	// A build-wide name stays the root so that every scope finds it.
	if buildWide(y) {
		x, y, sx, sy, okx, oky = y, x, sy, sx, oky, okx
	}
	if buildWide(y) {
		return &Mismatch{What: MismatchName, Dim: name, Out: x, In: y}
	}
	if b.parent == nil {
		b.parent = map[string]string{}
	}
	b.parent[y] = x
	if oky && !okx {
		b.size[x] = sy
	}
	delete(b.size, y)
	return nil
}
