package media

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"mm-abi.org/mm/internal/fsx"
)

// The limits of a cache.
const (
	DefaultBytes = 256 << 20 // of all entries
	maxEntry     = 64 << 20  // bytes of an entry
	maxHead      = 1 << 20   // bytes of an entry's head
	suffix       = ".vectors"
)

var magic = [4]byte{'M', 'M', 'F', '1'}

// VectorCache stores vectors on disk. Several processes may use one concurrently;
// entries are written atomically. It is safe for concurrent use.
type VectorCache struct{ files *fsx.Cache }

// OpenVectorCache opens a folder, or creates it with access for its user only. It
// keeps the entries used last, at most limit bytes; if limit is 0, DefaultBytes.
func OpenVectorCache(path string, limit int64) (*VectorCache, error) {
	if limit <= 0 {
		limit = DefaultBytes
	}
	files, err := fsx.OpenCache(path, suffix, limit)
	if err != nil {
		return nil, fmt.Errorf("opening the cache of vectors in %s: %w", path, err)
	}
	return &VectorCache{files}, nil
}

// Close closes the folder.
func (f *VectorCache) Close() error { return f.files.Close() }

// head describes an entry.
type head struct {
	Width   int      `json:"width"`
	Assumed []string `json:"assumed,omitempty"`
}

func entryName(k Key) string { return hex.EncodeToString(k[:]) + suffix }

// Get returns the vectors of a key. It removes an entry that is damaged or of
// another key.
func (f *VectorCache) Get(k Key) (Vectors, bool) {
	data, err := f.read(entryName(k))
	if errors.Is(err, fs.ErrNotExist) {
		return Vectors{}, false
	}
	var v Vectors
	if err == nil {
		v, err = decode(k, data)
	}
	if err != nil {
		_ = f.files.Remove(entryName(k)) // if that fails, the next Get tries again
		return Vectors{}, false
	}
	f.files.Used(entryName(k))
	return v, true
}

func (f *VectorCache) read(name string) ([]byte, error) {
	file, _, err := f.files.Open(name, maxEntry)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxEntry+1))
}

// Put writes the vectors of a key and removes the least recently used entries over
// the limit, as [fsx.Cache.Put] does. It skips vectors that are too large.
func (f *VectorCache) Put(ctx context.Context, k Key, v Vectors) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := encode(k, v)
	if err != nil || len(data) > maxEntry {
		return err
	}
	if _, err = f.files.Put(entryName(k), func(w io.Writer) error { _, err := w.Write(data); return err }); err != nil {
		return fmt.Errorf("writing cached vectors: %w", err)
	}
	return nil
}

// Clear removes all entries, or only counts them if dry.
func (f *VectorCache) Clear(dry bool) (files int, size int64, err error) {
	if files, size, err = f.files.Clear(dry); err != nil {
		err = fmt.Errorf("removing cached vectors: %w", err)
	}
	return files, size, err
}

// encode writes an entry: MMF1, the key, the length of the head, the head in
// JSON, the numbers, and the SHA-256 of all that precedes; little endian.
func encode(k Key, v Vectors) ([]byte, error) {
	text, err := json.Marshal(head{v.Width, v.Assumed})
	if err != nil {
		return nil, err
	}
	if v.Width < 1 || len(v.Numbers)%v.Width != 0 || len(text) > maxHead {
		return nil, fmt.Errorf("%d numbers are not vectors of width %d", len(v.Numbers), v.Width)
	}
	b := make([]byte, 0, len(magic)+len(k)+4+len(text)+4*len(v.Numbers)+sha256.Size)
	b = append(append(b, magic[:]...), k[:]...)
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(text))), text...)
	for _, x := range v.Numbers {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return sealed(b), nil
}

// sealed appends the digest of the bytes.
func sealed(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// decode reads an entry of the same key.
func decode(k Key, b []byte) (Vectors, error) {
	fixed := len(magic) + len(k) + 4
	if len(b) < fixed+sha256.Size || !bytes.HasPrefix(b, magic[:]) || !bytes.Equal(b[len(magic):fixed-4], k[:]) {
		return Vectors{}, errors.New("not an entry of this key")
	}
	end := len(b) - sha256.Size
	if sum := sha256.Sum256(b[:end]); !bytes.Equal(sum[:], b[end:]) {
		return Vectors{}, errors.New("digest mismatch")
	}
	n := binary.LittleEndian.Uint32(b[fixed-4:])
	rest := b[fixed:end]
	if n > maxHead || int(n) > len(rest) || (len(rest)-int(n))%4 != 0 {
		return Vectors{}, fmt.Errorf("bad head length: %d of %d bytes", n, len(rest))
	}
	var h head
	if err := json.Unmarshal(rest[:n], &h); err != nil {
		return Vectors{}, err
	}
	rest = rest[n:]
	if h.Width < 1 || len(rest) == 0 || len(rest)/4%h.Width != 0 {
		return Vectors{}, fmt.Errorf("%d bytes are not vectors of width %d", len(rest), h.Width)
	}
	v := Vectors{Numbers: make([]float32, len(rest)/4), Width: h.Width, Assumed: h.Assumed}
	for i := range v.Numbers {
		x := math.Float32frombits(binary.LittleEndian.Uint32(rest[4*i:]))
		if x != x || math.IsInf(float64(x), 0) {
			return Vectors{}, fmt.Errorf("element %d is %v", i, x)
		}
		v.Numbers[i] = x
	}
	return v, nil
}
