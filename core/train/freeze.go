package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"path"
	"strings"
	"unsafe"

	"mm-abi.org/mm/core/llm"
	"mm-abi.org/mm/core/pool"
)

// MovedError says that a tensor that must not move has moved. The run has
// stopped before anything of that step was saved.
type MovedError struct {
	Tensor    string
	Step      int    // last step of the group in which it moved
	Want, Got string // SHA-256 in hex
}

// Error names the tensor.
func (e *MovedError) Error() string {
	return fmt.Sprintf("frozen tensor %s moved by step %d: its SHA-256 was %.16s… and is %.16s…", e.Tensor, e.Step, e.Want, e.Got)
}

// frozen decides for one tensor.
func (f Freeze) frozen(t *llm.Tensor[float32], layers map[int]bool, last int) bool {
	if f.Policy == "boundary" {
		return t.Layer != 0 && t.Layer != last && t.Name != "output.weight"
	}
	switch {
	case f.Embeddings && strings.HasPrefix(t.Name, "token_embd"),
		f.Head && t.Name == "output.weight",
		f.Norms && (strings.Contains(t.Name, "norm") || strings.HasSuffix(t.Name, ".time_mix_ln.weight")),
		t.Layer >= 0 && layers[t.Layer]:
		return true
	}
	for _, p := range f.Tensors {
		if ok, _ := path.Match(p, t.Name); ok {
			return true
		}
	}
	return false
}

// apply freezes the model's tensors and returns the model to train: another
// one where a tied head had to be untied.
func (f Freeze) apply(m *llm.Model[float32]) (*llm.Model[float32], error) {
	if f.none() {
		return m, nil
	}
	if f.Policy == "boundary" || f.Embeddings != f.Head {
		var err error
		if m, err = m.Untie(); err != nil {
			return nil, err
		}
	}
	layers, err := parseLayers(f.Layers, m.Config.Layers)
	if err != nil {
		return nil, err
	}
	for _, p := range f.Tensors {
		hit := false
		for _, t := range m.Tensors() {
			ok, _ := path.Match(p, t.Name)
			hit = hit || ok
		}
		if !hit {
			return nil, fmt.Errorf("freeze: no tensor matches %q", p)
		}
	}
	names := map[string]bool{}
	for _, t := range m.Tensors() {
		names[t.Name] = f.frozen(t, layers, m.Config.Layers-1)
	}
	m.Freeze(func(name string) bool { return names[name] })
	return m, nil
}

// seal is the digests of all frozen tensors: of their type, shape and bytes.
type seal struct {
	tensors []*llm.Tensor[float32]
	want    [][sha256.Size]byte
	got     [][sha256.Size]byte
	pool    *pool.Pool
}

func newSeal(m *llm.Model[float32], p *pool.Pool) *seal {
	s := &seal{pool: p}
	for _, t := range m.Tensors() {
		if t.Grad == nil {
			s.tensors = append(s.tensors, t)
		}
	}
	s.want, s.got = make([][sha256.Size]byte, len(s.tensors)), make([][sha256.Size]byte, len(s.tensors))
	s.hash()
	copy(s.want, s.got)
	return s
}

func (s *seal) hash() {
	s.pool.For(len(s.tensors), 1, pool.Func(func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			s.got[i] = tensorDigest(s.tensors[i])
		}
	}))
}

// check hashes again and names the first tensor that differs.
func (s *seal) check(step int) error {
	s.hash()
	for i, t := range s.tensors {
		if s.got[i] != s.want[i] {
			return &MovedError{Tensor: t.Name, Step: step, Want: hex.EncodeToString(s.want[i][:]), Got: hex.EncodeToString(s.got[i][:])}
		}
	}
	return nil
}

// digests lists the sealed hashes by name, in hex.
func (s *seal) digests() map[string]string {
	all := map[string]string{}
	for i, t := range s.tensors {
		all[t.Name] = hex.EncodeToString(s.want[i][:])
	}
	return all
}

// tensorDigest is the SHA-256 of "F32", the shape and the bytes of a tensor.
func tensorDigest(t *llm.Tensor[float32]) [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintf(h, "F32 %v\n", t.Shape)
	h.Write(floatBytes(t.Data))
	return [sha256.Size]byte(h.Sum(nil))
}

// littleEndian tells whether this machine's memory has the order of files.
var littleEndian = func() bool {
	v := uint16(1)
	return *(*byte)(unsafe.Pointer(&v)) == 1
}()

// floatBytes is x as little-endian bytes: its own memory where that is so.
func floatBytes(x []float32) []byte {
	if len(x) == 0 {
		return nil
	}
	if littleEndian {
		return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
	}
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// setFloats reads little-endian bytes into x, of a quarter their length.
func setFloats(x []float32, b []byte) {
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
}
