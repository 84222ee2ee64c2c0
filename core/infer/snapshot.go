package infer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"slices"

	"mm-abi.org/mm/core/tensor"
)

// A snapshot is a session's positions on disk, little endian:
//
//	magic   "MMKV", u32 version: 2 for Q8_0, whose keys are spread, or 1; with
//	        blocks 2 more
//	model   32 bytes, the model's fingerprint
//	shape   u32 type of keys and values, layers, heads, dimensions of a head
//	tokens  u32 n, n × i32 (-1 where a vector was fed)
//	blocks  u32 m, m × (u32 first position, positions, places, 1 if mutual)
//	chunks  ⌈n/256⌉ × the memory of a chunk
//	state   f32 of the layers with a state, as many as the model's shape defines
//	logits  u32 V or 0, V × f32
//	digest  32 bytes, SHA-256 of all before
//
// The contents of a chunk are in the machine's byte order.
const (
	snapshotMagic   = "MMKV"
	snapshotVersion = 1
	snapshotSpread  = 2
	snapshotBlocks  = 2 // added to the version
	maxSnapshotHead = 4 + 4 + sha256.Size + 4*4 + 4
)

// ErrSnapshot reports a snapshot of another model or shape, or a damaged one.
// The session is unchanged.
var ErrSnapshot = errors.New("snapshot does not fit")

// WriteSnapshot saves the positions and the logits of the session.
func (s *Session) WriteSnapshot(w io.Writer) error {
	print, err := s.m.Fingerprint()
	if err != nil {
		return err
	}
	sum := sha256.New()
	out := io.MultiWriter(w, sum)
	head := s.snapshotHead(print, len(s.tokens), len(s.blocks) > 0)
	head, err = binary.Append(head, binary.LittleEndian, s.tokens)
	if err != nil {
		return err
	}
	if len(s.blocks) > 0 {
		head = appendBlocks(head, s.blocks)
	}
	if _, err := out.Write(head); err != nil {
		return fmt.Errorf("writing a snapshot: %w", err)
	}
	chunks, state, err := s.raw()
	if err != nil {
		return err
	}
	for _, c := range chunks {
		if _, err := out.Write(c); err != nil {
			return fmt.Errorf("writing a snapshot: %w", err)
		}
	}
	if s.state.size > 0 {
		if len(state) == 0 {
			state = make([]float32, s.state.size)
		}
		if err := binary.Write(out, binary.LittleEndian, state); err != nil {
			return fmt.Errorf("writing a snapshot: %w", err)
		}
	}
	logits := s.Logits()
	tail := binary.LittleEndian.AppendUint32(nil, uint32(len(logits)))
	if tail, err = binary.Append(tail, binary.LittleEndian, logits); err != nil {
		return err
	}
	if _, err := out.Write(tail); err != nil {
		return fmt.Errorf("writing a snapshot: %w", err)
	}
	if _, err := w.Write(sum.Sum(nil)); err != nil {
		return fmt.Errorf("writing a snapshot: %w", err)
	}
	return nil
}

// snapshotVersion returns the version of this session's snapshots. Q8_0 keys
// saved by version 1 are not spread, and are refused.
func (s *Session) snapshotVersion() uint32 {
	if s.cache.Type() == tensor.Q8_0 {
		return snapshotSpread
	}
	return snapshotVersion
}

// snapshotHead returns the head of a snapshot of n positions of this session.
func (s *Session) snapshotHead(print [sha256.Size]byte, n int, blocks bool) []byte {
	c := s.m.cfg
	version := s.snapshotVersion()
	if blocks {
		version += snapshotBlocks
	}
	b := append([]byte(snapshotMagic), binary.LittleEndian.AppendUint32(nil, version)...)
	b = append(b, s.rotation(print)...)
	for _, v := range []int{int(s.cache.Type()), c.Layers, c.KVHeads, c.HeadDim, n} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// rotation returns the model's fingerprint, combined with the rotation factors
// if the context selects them.
func (s *Session) rotation(print [sha256.Size]byte) []byte {
	if slices.Equal(s.m.ropeShort, s.m.ropeLong) {
		return print[:]
	}
	h := sha256.New()
	h.Write(print[:])
	for _, r := range s.turns {
		for _, f := range append(slices.Clone(r.theta), r.scale) {
			h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)))
		}
	}
	return h.Sum(nil)
}

// ReadSnapshot restores a session written by a session of the same model with
// the same type of keys and values; the context must be long enough. Nothing
// changes before the digest is verified and the file was read to its end; any
// mismatch is [ErrSnapshot]. If the memory of keys and values has no room, the
// error is [ErrMemory].
func (s *Session) ReadSnapshot(r io.Reader) error {
	print, err := s.m.Fingerprint()
	if err != nil {
		return err
	}
	in := &digestReader{r: r, sum: sha256.New()}
	head := make([]byte, maxSnapshotHead)
	if err := in.full(head); err != nil {
		return err
	}
	n := int(binary.LittleEndian.Uint32(head[maxSnapshotHead-4:]))
	divided := binary.LittleEndian.Uint32(head[4:]) == s.snapshotVersion()+snapshotBlocks
	if want := s.snapshotHead(print, n, divided); !bytes.Equal(head, want) {
		return fmt.Errorf("%w: %s", ErrSnapshot, headDifference(head, want))
	}
	if n > s.context {
		return fmt.Errorf("%w: got %d positions, limit %d", ErrSnapshot, n, s.context)
	}
	tokens := make([]int32, n)
	if err := in.ints(tokens); err != nil {
		return err
	}
	for _, t := range tokens {
		if t < vector || int(t) >= s.m.cfg.Vocab {
			return fmt.Errorf("%w: token %d out of range", ErrSnapshot, t)
		}
	}
	var blocks []block
	if divided {
		if blocks, err = in.blocks(n); err != nil {
			return err
		}
	}
	chunks := make([][]byte, 0, kvChunks(n))
	for range kvChunks(n) {
		b := make([]byte, s.cache.ChunkBytes())
		if err := in.full(b); err != nil {
			return err
		}
		chunks = append(chunks, b)
	}
	state, err := in.floats(s.state.size)
	if err != nil {
		return err
	}
	logits, err := in.logits(s.m.cfg.Vocab, n)
	if err != nil {
		return err
	}
	if err := in.end(); err != nil {
		return err
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if err := s.m.spare(s, len(chunks)); err != nil {
		return err
	}
	if err := s.cache.Adopt(chunks); err != nil {
		return err
	}
	s.lost, s.fixed = false, s.keepHidden || len(blocks) > 0 || slices.Contains(tokens, vector)
	s.state.adopt(n, state)
	s.tokens, s.blocks, s.valid = tokens, blocks, len(logits) > 0
	s.lookup.cut(0)
	s.hidden, s.unseen = s.hidden[:0], len(tokens)
	s.logits = append(s.logits[:0], logits...)
	if s.m.hold(s); !s.keepHidden { // texts that begin the same share it from now on
		s.m.keep(s, n)
	}
	return nil
}

// headDifference describes the first difference of a head.
func headDifference(got, want []byte) string {
	at := func(from, n int) bool { return bytes.Equal(got[from:from+n], want[from:from+n]) }
	version := binary.LittleEndian.Uint32(got[4:])
	switch {
	case !at(0, 4):
		return "not a snapshot"
	case version > snapshotSpread+snapshotBlocks, !at(4, 4) && at(8+sha256.Size, 4): // types have separate versions
		return fmt.Sprintf("got version %d, want %d", version, binary.LittleEndian.Uint32(want[4:]))
	case !at(8, sha256.Size):
		return "made by another model"
	}
	return "its keys and values are stored in another shape or type"
}

// digestReader reads and hashes.
type digestReader struct {
	r   io.Reader
	sum hash.Hash
}

func (d *digestReader) full(b []byte) error {
	if _, err := io.ReadFull(d.r, b); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: file truncated", ErrSnapshot)
		}
		return fmt.Errorf("reading a snapshot: %w", err)
	}
	d.sum.Write(b)
	return nil
}

// ints reads 32-bit numbers in parts, so that memory grows with the actual
// data.
func (d *digestReader) ints(dst []int32) error {
	var buf [4096]byte
	for part := range slices.Chunk(dst, len(buf)/4) {
		b := buf[:4*len(part)]
		if err := d.full(b); err != nil {
			return err
		}
		for i := range part {
			part[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
		}
	}
	return nil
}

// appendBlocks appends blocks to the head of a snapshot.
func appendBlocks(b []byte, blocks []block) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(blocks)))
	for _, x := range blocks {
		mutual := 0
		if x.mutual {
			mutual = 1
		}
		for _, v := range []int{x.first, x.rows, x.span, mutual} {
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		}
	}
	return b
}

// blocks reads the blocks of n positions, which are in order.
func (d *digestReader) blocks(n int) ([]block, error) {
	count := make([]int32, 1)
	if err := d.ints(count); err != nil {
		return nil, err
	}
	var out []block
	end := 0
	for range count[0] {
		v := make([]int32, 4)
		if err := d.ints(v); err != nil {
			return nil, err
		}
		b := block{first: int(v[0]), rows: int(v[1]), span: int(v[2]), mutual: v[3] == 1}
		if b.first < end || b.rows < 1 || b.rows > n-b.first || b.span < 1 || b.span > b.rows {
			return nil, fmt.Errorf("%w: block of %d positions at %d", ErrSnapshot, b.rows, b.first)
		}
		end = b.end()
		out = append(out, b)
	}
	return out, nil
}

func (d *digestReader) logits(vocab, positions int) ([]float32, error) {
	var count [4]byte
	if err := d.full(count[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(count[:])
	if n == 0 {
		return nil, nil
	}
	if int64(n) != int64(vocab) || positions == 0 {
		return nil, fmt.Errorf("%w: got %d logits, want %d", ErrSnapshot, n, vocab)
	}
	return d.floats(vocab)
}

// floats reads n numbers, or none.
func (d *digestReader) floats(n int) ([]float32, error) {
	if n == 0 {
		return nil, nil
	}
	b := make([]byte, 4*n)
	if err := d.full(b); err != nil {
		return nil, err
	}
	x := make([]float32, n)
	_, err := binary.Decode(b, binary.LittleEndian, x)
	return x, err
}

// end verifies the digest and the end of the file.
func (d *digestReader) end() error {
	want := d.sum.Sum(nil)
	got := make([]byte, len(want)+1)
	n, err := io.ReadFull(d.r, got)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("reading a snapshot: %w", err)
	}
	if !bytes.Equal(got[:n], want) {
		return fmt.Errorf("%w: digest mismatch", ErrSnapshot)
	}
	return nil
}
