package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// DeltaSuffix ends the key of an object that describes a file in pieces.
const DeltaSuffix = ".delta.json"

const (
	pieceFolder  = "pieces"    // the folder of pieces next to the objects that name them
	pinnedPrefix = "promoted-" // before the digest of a file, in the key of a delta that does not change
)

const (
	maxDelta  = 1 << 20 // bytes of a delta
	maxPieces = 4096    // of a delta
)

// Delta describes a file that a bucket holds in pieces. A piece is named by its
// digest, so that a file that changed in part shares the others with the file
// before.
type Delta struct {
	Size   int64   `json:"size"`
	SHA256 string  `json:"sha256"`
	Pieces []Piece `json:"pieces"` // in order
}

// Piece is a part of a file: the object pieces/sha256-DIGEST.
type Piece struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// pieceKey returns the key of a piece of the file at key.
func pieceKey(key, digest string) string {
	return path.Join(path.Dir(key), pieceFolder, "sha256-"+digest)
}

// parseDelta parses an untrusted delta.
func parseDelta(data []byte) (Delta, error) {
	var d Delta
	if err := strict(data, &d); err != nil {
		return d, fmt.Errorf("%w: delta: %w", ErrAnswer, err)
	}
	if len(d.Pieces) == 0 || len(d.Pieces) > maxPieces || !IsDigest(d.SHA256) {
		return d, fmt.Errorf("%w: delta: got %d pieces of a file with sha256 %q, want 1 to %d and a digest", ErrAnswer, len(d.Pieces), d.SHA256, maxPieces)
	}
	left := d.Size
	for _, p := range d.Pieces {
		if p.Size < 1 || p.Size > left || !IsDigest(p.SHA256) {
			return d, fmt.Errorf("%w: delta: piece of %d bytes with sha256 %q, %d bytes left of the file", ErrAnswer, p.Size, p.SHA256, left)
		}
		left -= p.Size
	}
	if left != 0 {
		return d, fmt.Errorf("%w: delta: pieces lack %d bytes of %d", ErrAnswer, left, d.Size)
	}
	return d, nil
}

// readDelta reads the delta of the file at key.
func readDelta(ctx context.Context, b Bucket, key string) (Delta, error) {
	data, err := GetBytes(ctx, b, key+DeltaSuffix, maxDelta)
	if err != nil {
		return Delta{}, err
	}
	return parseDelta(data)
}

// UploadDelta writes the file at path in pieces, unless the bucket holds them, and
// then its delta. cuts returns the offsets at which the file divides, in order;
// none, and the file is one object. It returns the number of bytes sent.
func UploadDelta(ctx context.Context, b Bucket, key, path string, cuts Cuts, opt UploadOptions) (info Info, sent int64, err error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return Info{}, 0, err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return Info{}, 0, err
	}
	at, err := cuts(f, before.Size())
	if err != nil {
		return Info{}, 0, err
	}
	if len(at) == 0 {
		info, moved, err := Upload(ctx, b, key, path, opt)
		if moved {
			sent = info.Size
		}
		if err == nil {
			err = remove(ctx, b, key+DeltaSuffix)
		}
		return info, sent, err
	}
	d, err := divide(ctx, f, before.Size(), at)
	if err != nil {
		return Info{}, 0, err
	}
	if sent, err = sendPieces(ctx, b, key, f, d, opt); err != nil {
		return Info{}, sent, err
	}
	if after, err := f.Stat(); err != nil || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return Info{}, sent, errors.Join(fmt.Errorf("%s changed while it was sent", path), err)
	}
	data, err := json.Marshal(d)
	if err != nil {
		return Info{}, sent, err
	}
	if _, err := PutBytes(ctx, b, key+DeltaSuffix, data, false); err != nil {
		return Info{}, sent, err
	}
	return Info{Key: key, Size: d.Size, SHA256: d.SHA256}, sent, remove(ctx, b, key)
}

// remove deletes an object if it exists: of a whole file and a delta one counts.
func remove(ctx context.Context, b Bucket, key string) error {
	_, err := b.Stat(ctx, key)
	if err == nil {
		err = b.Delete(ctx, key)
	}
	return ignoreMissing(err)
}

// sendPieces writes the pieces of a file that the bucket lacks.
func sendPieces(ctx context.Context, b Bucket, key string, f io.ReaderAt, d Delta, opt UploadOptions) (sent int64, err error) {
	off := int64(0)
	for _, p := range d.Pieces {
		moved, err := putPiece(ctx, b, pieceKey(key, p.SHA256), io.NewSectionReader(f, off, p.Size), p, opt)
		if err != nil {
			return sent, err
		}
		if moved {
			sent += p.Size
		}
		off += p.Size
	}
	return sent, nil
}

// Cuts returns the offsets, in order, at which a file of size bytes divides.
type Cuts func(r io.ReaderAt, size int64) ([]int64, error)

// divide computes the digests of a file and of its pieces.
func divide(ctx context.Context, f *os.File, size int64, cuts []int64) (Delta, error) {
	d, total, off := Delta{Size: size}, sha256.New(), int64(0)
	for _, end := range append(cuts[:len(cuts):len(cuts)], size) {
		if end <= off || end > size {
			return d, fmt.Errorf("%s: cut at %d after %d of %d bytes", f.Name(), end, off, size)
		}
		piece := sha256.New()
		r := fsx.Reader{Context: ctx, R: io.NewSectionReader(f, off, end-off)}
		if n, err := io.Copy(io.MultiWriter(total, piece), r); err != nil || n != end-off {
			return d, errors.Join(fmt.Errorf("reading %s: got %d bytes, want %d", f.Name(), n, end-off), err)
		}
		d.Pieces = append(d.Pieces, Piece{end - off, hex.EncodeToString(piece.Sum(nil))})
		off = end
	}
	if len(d.Pieces) > maxPieces {
		return d, fmt.Errorf("%s: got %d pieces, want at most %d", f.Name(), len(d.Pieces), maxPieces)
	}
	d.SHA256 = hex.EncodeToString(total.Sum(nil))
	return d, nil
}

// putPiece writes a piece unless the bucket holds it; another object at its key is
// replaced.
func putPiece(ctx context.Context, b Bucket, key string, r io.ReaderAt, p Piece, opt UploadOptions) (bool, error) {
	old, err := b.Stat(ctx, key)
	if err == nil && old.Size == p.Size && old.SHA256 == p.SHA256 {
		return false, nil
	}
	if err != nil && !errors.Is(err, ErrMissing) {
		return false, err
	}
	put := PutOptions{IfAbsent: err != nil, SHA256: p.SHA256, Session: opt.Sessions.For(cmp.Or(opt.Place, key)+" "+key, p.SHA256, p.Size)}
	info, err := b.Put(ctx, key, r, p.Size, put)
	if errors.Is(err, ErrExists) { // another writer of the same content
		info, err = b.Stat(ctx, key)
	}
	if err == nil && (info.Size != p.Size || info.SHA256 != p.SHA256) {
		err = fmt.Errorf("%w: %s: got %d bytes with %q, want %d", ErrAnswer, key, info.Size, info.SHA256, p.Size)
	}
	return err == nil, err
}

// Assembled returns a bucket in which the file at key is one object, though b may hold
// it in pieces.
func Assembled(ctx context.Context, b Bucket, key string) (Bucket, error) {
	if _, err := b.Stat(ctx, key); !errors.Is(err, ErrMissing) {
		return b, nil // the caller meets another error itself
	}
	d, err := readDelta(ctx, b, key)
	if errors.Is(err, ErrMissing) {
		return b, nil
	}
	return joined{b, key, d}, err
}

// joined is a bucket with a file of pieces as one object.
type joined struct {
	Bucket
	key   string
	delta Delta
}

// Stat implements [Bucket].
func (j joined) Stat(ctx context.Context, key string) (Info, error) {
	if key != j.key {
		return j.Bucket.Stat(ctx, key)
	}
	return j.info(), nil
}

func (j joined) info() Info {
	return Info{Key: j.key, Size: j.delta.Size, SHA256: j.delta.SHA256, ETag: j.delta.SHA256}
}

// Get implements [Bucket].
func (j joined) Get(ctx context.Context, key string, off, n int64, etag string) (io.ReadCloser, Info, error) {
	if key != j.key {
		return j.Bucket.Get(ctx, key, off, n, etag)
	}
	if etag != "" && etag != j.delta.SHA256 {
		return nil, Info{}, ErrChanged
	}
	if off < 0 || off > j.delta.Size {
		return nil, Info{}, fmt.Errorf("%s: offset %d of %d bytes", key, off, j.delta.Size)
	}
	if n < 0 || n > j.delta.Size-off {
		n = j.delta.Size - off
	}
	r := &pieceReader{ctx: ctx, j: j, off: off, left: n, part: io.NopCloser(bytes.NewReader(nil))}
	return Exact(r, n), j.info(), nil
}

// pieceReader reads pieces one after the other.
type pieceReader struct {
	ctx       context.Context
	j         joined
	off, left int64
	part      io.ReadCloser
	have      int64 // left of part
}

// Read implements io.Reader.
func (r *pieceReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	if r.have == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n, err := r.part.Read(p[:min(int64(len(p)), r.have)])
	r.off, r.left, r.have = r.off+int64(n), r.left-int64(n), r.have-int64(n)
	if err == io.EOF {
		err = nil
		if n == 0 && r.have > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// next opens the piece at the offset.
func (r *pieceReader) next() error {
	start := int64(0)
	for _, p := range r.j.delta.Pieces {
		if in := r.off - start; in < p.Size {
			r.have = min(p.Size-in, r.left)
			part, info, err := r.j.Bucket.Get(r.ctx, pieceKey(r.j.key, p.SHA256), in, r.have, "")
			if err != nil {
				r.have = 0
				return err
			}
			part, r.part = r.part, part
			if info.Size != p.Size {
				return fmt.Errorf("%w: piece %s: got %d bytes, want %d", ErrAnswer, p.SHA256, info.Size, p.Size)
			}
			return part.Close()
		}
		start += p.Size
	}
	return io.ErrUnexpectedEOF
}

// Close implements io.Closer.
func (r *pieceReader) Close() error { return r.part.Close() }

// described replaces in a list of names below a folder the deltas by the files that
// they describe, and leaves out their pieces and what promotions keep.
func described(names []string) []string {
	pieces := map[string]bool{}
	for _, name := range names {
		if strings.HasSuffix(name, DeltaSuffix) {
			pieces[path.Join(path.Dir(name), pieceFolder)] = true
		}
	}
	var files []string
	for _, name := range names {
		base, delta := strings.CutSuffix(path.Base(name), DeltaSuffix)
		if pieces[path.Dir(name)] && strings.HasPrefix(base, "sha256-") || delta && IsDigest(strings.TrimPrefix(base, pinnedPrefix)) {
			continue
		}
		files = append(files, strings.TrimSuffix(name, DeltaSuffix))
	}
	return files
}

// pin writes a copy of the delta of a file that no later version replaces, and
// returns its key without the suffix. The pieces are there afterwards.
func (j joined) pin(ctx context.Context) (string, error) {
	data, err := json.Marshal(j.delta)
	if err != nil {
		return "", err
	}
	key := path.Join(path.Dir(j.key), pinnedPrefix+j.delta.SHA256)
	if _, err := PutBytes(ctx, j.Bucket, key+DeltaSuffix, data, true); err != nil && !errors.Is(err, ErrExists) {
		return "", err
	}
	for _, p := range j.delta.Pieces {
		info, err := j.Bucket.Stat(ctx, pieceKey(key, p.SHA256))
		if err == nil && (info.Size != p.Size || info.SHA256 != p.SHA256) {
			err = ErrDigest
		}
		if err != nil {
			return "", fmt.Errorf("piece %s of %s: %w", p.SHA256, j.key, err)
		}
	}
	return key, nil
}
