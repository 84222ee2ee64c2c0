package kv

import "fmt"

// Chunks is the number of chunks that hold the positions below n.
func Chunks(n int) int { return (n + Chunk - 1) / Chunk }

// Blank overwrites what is left of positions from n on, which were stored and
// given up.
func (c *Cache) Blank(n int) {
	zero := make([]float32, c.shape.Dim)
	for pos := n; pos < len(c.chunks)*Chunk; pos++ {
		for layer := range c.shape.Layers {
			for head := range c.shape.Heads {
				c.Store(layer, head, pos, zero, zero)
			}
		}
	}
}

// Raw gives the memory of a chunk, for saving.
func (c *Cache) Raw(chunk int) []byte { return c.chunks[chunk] }

// Adopt replaces the contents by chunks that were saved from a cache of the
// same shape and type. The slices are kept.
func (c *Cache) Adopt(chunks [][]byte) error {
	for _, b := range chunks {
		if len(b) != c.ChunkBytes() {
			return fmt.Errorf("a chunk of %d bytes, not %d", len(b), c.ChunkBytes())
		}
	}
	c.chunks = chunks
	return nil
}
