package media

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
)

// Vectors are the encoding of an input.
type Vectors struct {
	Numbers []float32 // n × Width
	Width   int
	Assumed []string // assumptions about the encoder, absent in its manifest
}

// Key is a hash of everything that vectors depend on.
type Key [sha256.Size]byte

// NewKey hashes parts together with their lengths.
func NewKey(parts ...[]byte) Key {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(p))))
		h.Write(p)
	}
	return Key(h.Sum(nil))
}

// Held are vectors with their id in this process.
type Held struct {
	Vectors
	ID int32 // of each of its positions; negative, unlike a token's
}

// Memory caches the vectors used last. The zero value is ready. It is safe for
// concurrent use.
type Memory struct {
	mu    sync.Mutex
	held  map[Key]Held
	order []Key // most recently used last
	size  int   // numbers held
	last  int32 // the last id
}

// maxNumbers bounds the numbers that a Memory holds (64 MiB).
const maxNumbers = 16 << 20

// Get returns the vectors of a key.
func (c *Memory) Get(k Key) (Held, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.held[k]
	if ok {
		c.order = append(slices.DeleteFunc(c.order, func(o Key) bool { return o == k }), k)
	}
	return f, ok
}

// Put stores vectors under a new id and removes the least recently used ones over
// the limit. If the key exists, it returns the existing vectors.
func (c *Memory) Put(k Key, v Vectors) Held {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.held[k]; ok {
		return f
	}
	c.last--
	f := Held{v, c.last}
	if c.held == nil {
		c.held = map[Key]Held{}
	}
	c.held[k], c.size = f, c.size+len(v.Numbers)
	c.order = append(c.order, k)
	for c.size > maxNumbers && len(c.order) > 1 {
		c.size -= len(c.held[c.order[0]].Numbers)
		delete(c.held, c.order[0])
		c.order = c.order[1:]
	}
	return f
}
