package runner

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"
	"sync"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
)

// The limits of a [SequenceCache].
const (
	// DefaultSequenceBytes is the limit of all files.
	DefaultSequenceBytes = 1 << 30

	leastKept    = 64      // tokens that are worth a file
	maxKeptIDs   = 1 << 20 // tokens of a file
	keptVersion  = 1
	keptMagic    = "MMSQ"
	keptSuffix   = ".sequence"
	keptHeadSize = len(keptMagic) + 4 + sha256.Size + 4 // before the tokens
	keptTail     = sha256.Size
)

// SecretSize is the length of the secret of a [SequenceCache].
const SecretSize = 32

// SequenceCache keeps sequences on disk, so that a later process does not compute a text again
// that begins like one of them. A file is, little endian:
//
//	magic   "MMSQ", u32 version
//	kind    32 bytes: build, engine, options, program and owner ([sequenceKind])
//	tokens  u32 n, n × i32
//	data    of the engine ([runtimes.Saver])
//	digest  32 bytes, HMAC-SHA-256 of all before
//
// The digest has a secret of this home: keys and values that another machine or program made
// would change answers unnoticed. It is verified before a sequence has the data. A file that is
// damaged or of another kind is not used; its text is computed. The cache is safe for concurrent
// use, also by several processes.
type SequenceCache struct {
	files  *fsx.Cache
	secret []byte
	report func(error)

	mu   sync.Mutex
	seen map[string]*keptHead // by name; nil: unusable
}

// keptHead is the start of a file.
type keptHead struct {
	kind [sha256.Size]byte
	ids  []int32
}

// OpenSequenceCache opens a folder, or creates it with access for its user only. It keeps the
// files used last, at most limit bytes; if limit is 0, DefaultSequenceBytes. Report receives the
// errors of files, which cost only time; it is called concurrently, and may be nil.
func OpenSequenceCache(path string, secret []byte, limit int64, report func(error)) (*SequenceCache, error) {
	if len(secret) != SecretSize {
		return nil, fmt.Errorf("opening the kept sequences in %s: secret of %d bytes, want %d", path, len(secret), SecretSize)
	}
	if limit <= 0 {
		limit = DefaultSequenceBytes
	}
	if report == nil {
		report = func(error) {}
	}
	files, err := fsx.OpenCache(path, keptSuffix, limit)
	if err != nil {
		return nil, fmt.Errorf("opening the kept sequences in %s: %w", path, err)
	}
	return &SequenceCache{files: files, secret: secret, report: report, seen: map[string]*keptHead{}}, nil
}

// Close closes the folder.
func (c *SequenceCache) Close() error { return c.files.Close() }

// Clear removes all files, or only counts them if dry.
func (c *SequenceCache) Clear(dry bool) (files int, size int64, err error) {
	if files, size, err = c.files.Clear(dry); err != nil {
		err = fmt.Errorf("removing kept sequences: %w", err)
	}
	return files, size, err
}

// sequenceKind holds all that a sequence depends on, except its tokens.
type sequenceKind struct {
	Build, Core    string // digest, and the name of the core
	Engine         string
	KV             string // type of the keys and values
	Context        int    // positions
	Revision, Unit string // of the program, and the instructions it uses: they round differently
	Owner          string // may use it: the name of a client's key
}

// sum returns the digest of a kind.
func (c *SequenceCache) sum(k sequenceKind) (out [sha256.Size]byte) {
	data, _ := json.Marshal(k) // strings and an integer
	mac := hmac.New(sha256.New, c.secret)
	mac.Write(data)
	return [sha256.Size]byte(mac.Sum(nil))
}

// keptName returns the name of the file of a text.
func (c *SequenceCache) keptName(h *keptHead) string {
	mac := hmac.New(sha256.New, c.secret)
	mac.Write(h.append(nil))
	return hex.EncodeToString(mac.Sum(nil)[:16]) + keptSuffix
}

// append appends the start of the file.
func (h *keptHead) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(append(b, keptMagic...), keptVersion)
	b = binary.LittleEndian.AppendUint32(append(b, h.kind[:]...), uint32(len(h.ids)))
	for _, id := range h.ids {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	return b
}

// find returns the file of a kind with the longest common beginning with ids.
func (c *SequenceCache) find(kind [sha256.Size]byte, ids []int32) (name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.scan(); err != nil {
		c.report(fmt.Errorf("listing kept sequences: %w", err))
		return "", 0
	}
	for at, h := range c.seen {
		if h == nil || h.kind != kind {
			continue
		}
		if m := commonIDs(h.ids, ids); m > n || m == n && m > 0 && at < name {
			name, n = at, m
		}
	}
	return name, n
}

// commonIDs returns the length of the common beginning.
func commonIDs(a, b []int32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// scan reads the starts of files that other processes wrote. The mutex is held.
func (c *SequenceCache) scan() error {
	names, err := c.files.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := c.seen[name]; ok {
			continue
		}
		h, err := c.readHead(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		switch c.seen[name] = nil; {
		case err != nil:
			c.drop(name, err)
		case c.keptName(h) == name: // otherwise another home's, which may share the folder
			c.seen[name] = h
		}
	}
	if len(c.seen) > len(names) { // others were removed
		for name := range c.seen {
			if !slices.Contains(names, name) {
				delete(c.seen, name)
			}
		}
	}
	return nil
}

// drop removes a file that cannot be used and reports why.
func (c *SequenceCache) drop(name string, err error) {
	c.report(fmt.Errorf("kept sequence %s: %w; it is removed, its text computed again", name, err))
	if err := c.files.Remove(name); err != nil {
		c.report(fmt.Errorf("removing the kept sequence %s: %w", name, err))
	}
}

// readHead reads the start of a file.
func (c *SequenceCache) readHead(name string) (*keptHead, error) {
	f, size, err := c.files.Open(name, c.files.Limit())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readKeptHead(f, size)
}

// errKept reports a file that is not a kept sequence, or a damaged one.
var errKept = errors.New("damaged or foreign file")

// readKeptHead reads the start of a file of size bytes.
func readKeptHead(r io.Reader, size int64) (*keptHead, error) {
	fixed := make([]byte, keptHeadSize)
	if _, err := io.ReadFull(r, fixed); err != nil {
		return nil, fmt.Errorf("%w: %d bytes", errKept, size)
	}
	rest, ok := bytes.CutPrefix(fixed, []byte(keptMagic))
	if !ok {
		return nil, fmt.Errorf("%w: not a kept sequence", errKept)
	}
	if v := binary.LittleEndian.Uint32(rest); v != keptVersion {
		return nil, fmt.Errorf("%w: got version %d, want %d", errKept, v, keptVersion)
	}
	h := &keptHead{kind: [sha256.Size]byte(rest[4 : 4+sha256.Size])}
	n := binary.LittleEndian.Uint32(rest[4+sha256.Size:])
	if n < 1 || n > maxKeptIDs || int64(n)*4 > size-int64(keptHeadSize+keptTail) {
		return nil, fmt.Errorf("%w: %d tokens in %d bytes", errKept, n, size)
	}
	data := make([]byte, 4*n)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("%w: file truncated", errKept)
	}
	h.ids = make([]int32, n)
	for i := range h.ids {
		h.ids[i] = int32(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return h, nil
}

// restore makes a sequence hold that of a file. On an error, the sequence is empty.
func (c *SequenceCache) restore(name string, kind [sha256.Size]byte, s *session) error {
	err := c.load(name, kind, s)
	if err == nil {
		c.files.Used(name)
		return nil
	}
	c.mu.Lock()
	delete(c.seen, name)
	c.mu.Unlock()
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, runtimes.ErrFull) {
		c.drop(name, err)
	}
	return errors.Join(err, s.keep(0))
}

func (c *SequenceCache) load(name string, kind [sha256.Size]byte, s *session) error {
	f, size, err := c.files.Open(name, c.files.Limit())
	if err != nil {
		return err
	}
	defer f.Close()
	mac := hmac.New(sha256.New, c.secret)
	h, err := readKeptHead(io.TeeReader(f, mac), size)
	if err != nil {
		return err
	}
	if h.kind != kind {
		return fmt.Errorf("%w: replaced by a sequence of another kind", errKept)
	}
	data := &authentic{r: io.LimitReader(f, size-int64(keptHeadSize+4*len(h.ids)+keptTail)), mac: mac, tail: f}
	if err := s.Sequence.(runtimes.Saver).Restore(data); err != nil {
		return err
	}
	if s.Len() != len(h.ids) {
		return fmt.Errorf("%w: %d positions for %d tokens", errKept, s.Len(), len(h.ids))
	}
	s.held = h.ids
	return nil
}

// authentic reads data. At its end, it returns [io.EOF] only if the digest after it is right.
type authentic struct {
	r    io.Reader
	mac  hash.Hash
	tail io.Reader // after the data
	err  error
}

// Read implements io.Reader.
func (a *authentic) Read(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	n, err := a.r.Read(p)
	a.mac.Write(p[:n])
	if errors.Is(err, io.EOF) {
		var want [keptTail + 1]byte
		m, _ := io.ReadFull(a.tail, want[:])
		if !hmac.Equal(want[:m], a.mac.Sum(nil)) {
			err = fmt.Errorf("%w: digest mismatch", errKept)
		}
		a.err = err
	}
	return n, err
}

// save writes the first tokens of a sequence, up to an input of another kind, and removes the
// files of its beginnings.
func (c *SequenceCache) save(ctx context.Context, kind [sha256.Size]byte, s *session) error {
	n := slices.IndexFunc(s.held, func(id int32) bool { return id < 0 })
	if n < 0 {
		n = len(s.held)
	}
	if n = min(n, s.Len()); n < leastKept || n > maxKeptIDs {
		return nil
	}
	h := &keptHead{kind: kind, ids: slices.Clone(s.held[:n])}
	name := c.keptName(h)
	c.mu.Lock()
	old := c.seen[name]
	present := old != nil && old.kind == kind && slices.Equal(old.ids, h.ids)
	c.mu.Unlock()
	if present {
		c.files.Used(name)
		return nil
	}
	if err := s.keep(n); err != nil || s.Len() != n {
		return err
	}
	ok, err := c.files.Put(name, func(w io.Writer) error {
		mac := hmac.New(sha256.New, c.secret)
		out := io.MultiWriter(fsx.Writer{Context: ctx, W: w}, mac)
		if _, err := out.Write(h.append(nil)); err != nil {
			return err
		}
		if err := s.Sequence.(runtimes.Saver).Save(out); err != nil {
			return err
		}
		_, err := w.Write(mac.Sum(nil))
		return err
	})
	if err != nil || !ok {
		return err
	}
	return c.supersede(name, h)
}

// supersede removes the files whose text is the beginning of that of a new one.
func (c *SequenceCache) supersede(name string, h *keptHead) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[name] = h
	var err error
	for at, o := range c.seen {
		if at != name && o != nil && o.kind == h.kind && len(o.ids) <= len(h.ids) && commonIDs(o.ids, h.ids) == len(o.ids) {
			delete(c.seen, at)
			err = errors.Join(err, c.files.Remove(at))
		}
	}
	return err
}
