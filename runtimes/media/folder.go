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
	"slices"
	"strings"
	"sync"
	"time"

	"mm-abi.org/mm/internal/fsx"
)

// The limits of a cache.
const (
	DefaultBytes = 256 << 20 // of all entries
	maxEntry     = 64 << 20  // bytes of an entry
	maxHead      = 1 << 20   // bytes of an entry's head
	leftover     = time.Hour // age at which files of interrupted writers are removed
	suffix       = ".vectors"
)

var magic = [4]byte{'M', 'M', 'F', '1'}

// VectorCache stores vectors on disk. Several processes may use one concurrently;
// entries are written atomically. It is safe for concurrent use.
type VectorCache struct {
	dir   *fsx.Dir
	limit int64

	mu   sync.Mutex
	room int64 // bytes that Put may write before it lists the folder again
}

// OpenVectorCache opens a folder, or creates it with access for its user only. It
// keeps the entries used last, at most limit bytes; if limit is 0, DefaultBytes.
func OpenVectorCache(path string, limit int64) (*VectorCache, error) {
	if limit <= 0 {
		limit = DefaultBytes
	}
	dir, err := fsx.Create(path, 0o700, fsx.Options{})
	if err != nil {
		return nil, fmt.Errorf("opening the cache of vectors in %s: %w", path, err)
	}
	info, err := dir.Root().Stat(".")
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = dir.Chmod(".", 0o700)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the cache of vectors in %s: %w", path, err), dir.Close())
	}
	return &VectorCache{dir: dir, limit: limit}, nil
}

// Close closes the folder.
func (f *VectorCache) Close() error { return f.dir.Close() }

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
		f.dir.Remove(entryName(k)) // if that fails, the next Get tries again
		return Vectors{}, false
	}
	f.dir.Touch(entryName(k), 0o600) // best effort: it only orders the removal
	return v, true
}

func (f *VectorCache) read(name string) ([]byte, error) {
	info, err := f.dir.Root().Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxEntry {
		return nil, fmt.Errorf("not an entry: mode %s, %d bytes", info.Mode(), info.Size())
	}
	file, err := f.dir.Root().Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxEntry+1))
}

// Put writes the vectors of a key and removes the least recently used entries over
// the limit. It skips vectors that are too large. It lists the folder only after it
// wrote half of the room that the last listing left, so other processes that write at
// the same time can exceed the limit by a half of it each.
func (f *VectorCache) Put(ctx context.Context, k Key, v Vectors) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := encode(k, v)
	if err != nil {
		return err
	}
	if int64(len(data)) > min(f.limit, maxEntry) {
		return nil
	}
	if err := f.dir.WriteCache(entryName(k), data, 0o600); err != nil {
		return fmt.Errorf("writing cached vectors: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.room -= int64(len(data)); f.room >= 0 {
		return nil
	}
	size, err := f.trim(f.limit)
	f.room = (f.limit - size) / 2
	return err
}

// entry is a file of the folder.
type entry struct {
	name string
	size int64
	used time.Time
}

// entries lists the entries, least recently used first, and the files of
// interrupted writers.
func (f *VectorCache) entries() (all []entry, left []entry, err error) {
	list, err := fs.ReadDir(f.dir.Root().FS(), ".")
	if err != nil {
		return nil, nil, err
	}
	for _, e := range list {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() { // removed meanwhile
			continue
		}
		one := entry{e.Name(), info.Size(), info.ModTime()}
		switch {
		case strings.HasSuffix(e.Name(), suffix):
			all = append(all, one)
		case strings.HasPrefix(e.Name(), fsx.TempPrefix):
			left = append(left, one)
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		if c := a.used.Compare(b.used); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	return all, left, nil
}

// trim returns the bytes of all entries. If they exceed limit, it removes entries first,
// up to a sixteenth more than necessary, so that a full cache is not listed at each Put.
func (f *VectorCache) trim(limit int64) (total int64, err error) {
	all, left, err := f.entries()
	if err != nil {
		return limit, fmt.Errorf("listing cached vectors: %w", err)
	}
	for _, e := range all {
		total += e.size
	}
	least := limit
	if total > limit {
		least -= limit / 16
	}
	for _, e := range all {
		if total <= limit && total-e.size < least {
			break
		}
		total -= e.size
		if err := f.remove(e.name); err != nil {
			return total, err
		}
	}
	for _, e := range left {
		if time.Since(e.used) > leftover {
			if err := f.remove(e.name); err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

// remove removes a file that another process may remove as well.
func (f *VectorCache) remove(name string) error {
	if err := f.dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing cached vectors: %w", err)
	}
	return nil
}

// Clear removes all entries, or only counts them if dry.
func (f *VectorCache) Clear(dry bool) (files int, size int64, err error) {
	all, left, err := f.entries()
	if err != nil {
		return 0, 0, fmt.Errorf("listing cached vectors: %w", err)
	}
	for _, e := range append(all, left...) {
		files, size = files+1, size+e.size
		if !dry {
			if err := f.remove(e.name); err != nil {
				return files, size, err
			}
		}
	}
	return files, size, nil
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
