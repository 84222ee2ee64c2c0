package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"unsafe"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/nn"
)

// MovedError reports that a frozen tensor changed. The run stopped before it
// saved anything of that step.
type MovedError struct {
	Tensor    string
	Step      int    // last step of the group in which it changed
	Want, Got string // SHA-256 in hex
}

// Error names the tensor.
func (e *MovedError) Error() string {
	return fmt.Sprintf("frozen tensor %s moved by step %d: SHA-256 %.16s…, want %.16s…", e.Tensor, e.Step, e.Got, e.Want)
}

// seal holds the digests of all frozen tensors, over type, shape and bytes.
type seal struct {
	tensors []*nn.Tensor[float32]
	want    [][sha256.Size]byte
	got     [][sha256.Size]byte
	pool    *pool.Pool
}

func newSeal(tensors []*nn.Tensor[float32], p *pool.Pool) *seal {
	s := &seal{pool: p}
	for _, t := range tensors {
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

// check rehashes and returns an error for the first tensor that differs.
func (s *seal) check(step int) error {
	s.hash()
	for i, t := range s.tensors {
		if s.got[i] != s.want[i] {
			return &MovedError{Tensor: t.Name, Step: step, Want: hex.EncodeToString(s.want[i][:]), Got: hex.EncodeToString(s.got[i][:])}
		}
	}
	return nil
}

// parts returns the seals of the parts, in the order of their first tensors,
// without parts that have no frozen tensor. name maps a tensor to its part.
func (s *seal) parts(name func(tensor string) string, all []*nn.Tensor[float32]) []Seal {
	type sum struct {
		Seal
		before, after hash.Hash
	}
	var order []*sum
	of := map[string]*sum{}
	find := func(part string) *sum {
		if of[part] == nil {
			of[part] = &sum{Seal: Seal{Part: part}, before: sha256.New(), after: sha256.New()}
			order = append(order, of[part])
		}
		return of[part]
	}
	for i, t := range s.tensors {
		p := find(name(t.Name))
		p.Tensors++
		fmt.Fprintf(p.before, "%s %x\n", t.Name, s.want[i])
		fmt.Fprintf(p.after, "%s %x\n", t.Name, s.got[i])
	}
	for _, t := range all {
		if p := of[name(t.Name)]; p != nil && t.Grad != nil {
			p.Trained++
		}
	}
	var out []Seal
	for _, p := range order {
		p.Before, p.After = hex.EncodeToString(p.before.Sum(nil)), hex.EncodeToString(p.after.Sum(nil))
		out = append(out, p.Seal)
	}
	return out
}

// digests lists the sealed hashes by name, in hex.
func (s *seal) digests() map[string]string {
	all := map[string]string{}
	for i, t := range s.tensors {
		all[t.Name] = hex.EncodeToString(s.want[i][:])
	}
	return all
}

// tensorDigest returns the SHA-256 of "F32", the shape and the bytes of a
// tensor.
func tensorDigest(t *nn.Tensor[float32]) [sha256.Size]byte {
	h := sha256.New()
	if s, ok := t.Stored.(stored); ok {
		fmt.Fprintf(h, "%v %v\n", s.typ, t.Shape)
		h.Write(s.data)
		return [sha256.Size]byte(h.Sum(nil))
	}
	fmt.Fprintf(h, "F32 %v\n", t.Shape)
	h.Write(floatBytes(t.Data))
	return [sha256.Size]byte(h.Sum(nil))
}

// littleEndian reports whether the machine is little-endian.
var littleEndian = func() bool {
	v := uint16(1)
	return *(*byte)(unsafe.Pointer(&v)) == 1
}()

// floatBytes returns x as little-endian bytes, without a copy on a
// little-endian machine.
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

// setFloats decodes little-endian bytes into x, which has a quarter of their
// length.
func setFloats(x []float32, b []byte) {
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
}
