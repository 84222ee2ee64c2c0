package infer

import "fmt"

// Chunks is the number of chunks that hold the positions below n.
func kvChunks(n int) int { return (n + kvChunk - 1) / kvChunk }

// Blank overwrites what is left of positions from n on, which were stored and
// given up.
func (c *kvCache) Blank(n int) {
	zero := make([]float32, c.shape.Dim)
	for pos := n; pos < len(c.chunks)*kvChunk; pos++ {
		for layer := range c.shape.Layers {
			for head := range c.shape.Heads {
				c.Store(layer, head, pos, zero, zero)
			}
		}
	}
}

// Raw gives the memory of a chunk, for saving.
func (c *kvCache) Raw(chunk int) []byte { return c.chunks[chunk] }

// Adopt replaces the contents by chunks that were saved from a cache of the
// same shape and type. The slices are kept.
func (c *kvCache) Adopt(chunks [][]byte) error {
	for _, b := range chunks {
		if len(b) != c.ChunkBytes() {
			return fmt.Errorf("a chunk of %d bytes, not %d", len(b), c.ChunkBytes())
		}
	}
	c.chunks = chunks
	return nil
}
