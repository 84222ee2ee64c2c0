package cas

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/artifact"
)

// saveEvery is how many bytes a resumable ingest may lose to a power cut.
const saveEvery = 64 << 20

// resumable is a file that grows over the lives of several processes. It
// consists of three files: the bytes, a state with the number of durable bytes
// and their hash, and a lock that one process holds at a time.
//
// The state is written only after its bytes are synced. When resuming, those
// bytes count as hashed if the file is unchanged since, and are read again
// otherwise (after a kill, say). Bytes past the state, written by a killed
// process and not synced, are read and hashed. Reading costs little compared
// with fetching, and Commit stores the hashed bytes: if a power cut left other
// bytes, Commit reports them as wrong.
type resumable struct {
	s     *Blobs
	name  string // of the bytes
	lock  *fsx.Lock
	f     *fsx.File
	h     hash.Hash // SHA-256 of the bytes so far
	off   int64
	saved int64
	err   error // a failed write; the hash no longer matches the file
}

// resumeState is the state file.
type resumeState struct {
	Offset int64  `json:"offset"`
	SHA256 []byte `json:"sha256"` // encoding.BinaryMarshaler of crypto/sha256
	File   string `json:"file"`   // the file's key when that was so, "" if it has none
}

// resume opens the ingest under name, waiting for its lock, and creates it if
// create is set. With unsynced, bytes past the state are kept; no caller may
// then have reported an offset before them. Otherwise they are dropped.
func (s *Blobs) resume(ctx context.Context, name string, create, unsynced bool) (*resumable, error) {
	lock, err := s.dir.Lock(ctx, name+".lock")
	if err != nil {
		return nil, err
	}
	if _, err := s.dir.Root().Stat(filepath.FromSlash(name)); !create && errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(errdef.ErrNotFound, lock.RemoveUnlock())
	}
	r := &resumable{s: s, name: name, lock: lock, h: sha256.New()}
	if err := r.open(unsynced); err != nil {
		return nil, errors.Join(err, r.lock.Unlock())
	}
	return r, nil
}

func (r *resumable) open(unsynced bool) error {
	f, err := r.s.dir.Append(r.name, 0o644)
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	sound, err := r.restore(fi)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.saved = r.off
	if sound && unsynced {
		err = r.absorb(fi.Size())
	} else {
		err = f.Truncate(r.off)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.f = f
	return nil
}

// absorb hashes the bytes from the saved state to the end of the file.
func (r *resumable) absorb(end int64) error {
	if end == r.off {
		return nil
	}
	f, err := r.s.dir.Root().Open(filepath.FromSlash(r.name))
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.CopyBuffer(r.h, struct{ io.Reader }{io.NewSectionReader(f, r.off, end-r.off)}, make([]byte, copyBuffer))
	r.off += n
	return err
}

// restore loads the saved state and reports whether the file matches it.
// Without a state it reports true.
func (r *resumable) restore(fi fs.FileInfo) (bool, error) {
	state, h, err := r.s.readState(r.name)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist), nil
	}
	if state.Offset > fi.Size() {
		return false, nil
	}
	if key, ok := KeyOfInfo(fi); !ok || key.String() != state.File {
		f, err := r.s.dir.Root().Open(filepath.FromSlash(r.name))
		if err != nil {
			return false, err
		}
		defer f.Close()
		again := sha256.New()
		if _, err := io.CopyBuffer(again, struct{ io.Reader }{io.LimitReader(f, state.Offset)}, make([]byte, copyBuffer)); err != nil {
			return false, err
		}
		if !bytes.Equal(again.Sum(nil), h.Sum(nil)) {
			return false, nil
		}
	}
	r.off, r.h = state.Offset, h
	return true, nil
}

// readState returns the saved state and the hash to continue with. If there is
// no state, the error is fs.ErrNotExist.
func (s *Blobs) readState(name string) (state resumeState, h hash.Hash, err error) {
	data, err := ReadFile(s.dir, name+".state", 4<<10)
	if err != nil {
		return resumeState{}, nil, err
	}
	if err := json.Unmarshal(data, &state); err != nil || state.Offset < 0 {
		return resumeState{}, nil, fmt.Errorf("%s.state is damaged: %w", name, errors.Join(err, artifact.ErrCorrupt))
	}
	h = sha256.New()
	return state, h, h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state.SHA256)
}

// Offset returns the number of bytes received; the next Write continues there.
func (r *resumable) Offset() int64 { return r.off }

// Write appends b.
func (r *resumable) Write(b []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.f == nil {
		return 0, fs.ErrClosed
	}
	n, err := r.f.Write(b)
	r.h.Write(b[:n])
	r.off += int64(n)
	if err == nil && r.off-r.saved >= saveEvery {
		err = r.save()
	}
	r.err = err
	return n, err
}

// save syncs the received bytes and then writes the state.
func (r *resumable) save() error {
	if err := r.f.Sync(); err != nil {
		return err
	}
	sum, err := r.h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return err
	}
	fi, err := r.f.Stat()
	if err != nil {
		return err
	}
	state := resumeState{Offset: r.off, SHA256: sum}
	if key, ok := KeyOfInfo(fi); ok {
		state.File = key.String()
	}
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if err := r.s.dir.WriteFile(r.name+".state", data, 0o644); err != nil {
		return err
	}
	r.saved = r.off
	return nil
}

// Reset drops the received bytes, so that the next Write starts at 0.
func (r *resumable) Reset() error {
	if r.f == nil {
		return fs.ErrClosed
	}
	// The bytes go first: a state with more bytes than the file is ignored.
	if err := r.f.Truncate(0); err != nil {
		return err
	}
	if err := IgnoreMissing(r.s.dir.Remove(r.name + ".state")); err != nil {
		return err
	}
	r.h, r.off, r.saved, r.err = sha256.New(), 0, 0, nil
	return nil
}

// Close keeps the received bytes for the next time. After Commit it does
// nothing.
func (r *resumable) Close() error {
	if r.f == nil {
		return nil
	}
	var err error
	if r.off > r.saved && r.err == nil {
		err = r.save()
	}
	err = errors.Join(err, r.f.Close(), r.lock.Unlock())
	r.f = nil
	return err
}

// commit checks the received bytes against desc and makes them the blob,
// unless it exists. Bytes that do not match are dropped.
func (r *resumable) commit(ctx context.Context, desc ocispec.Descriptor) (err error) {
	if r.err != nil {
		return errors.Join(r.err, r.Close())
	}
	if r.f == nil {
		return fs.ErrClosed
	}
	if r.off < desc.Size {
		return errors.Join(fmt.Errorf("%d bytes of %d: %w", r.off, desc.Size, io.ErrUnexpectedEOF), r.Close())
	}
	got := digest.NewDigest(digest.SHA256, r.h)
	if desc.Digest.Algorithm() != digest.SHA256 {
		if got, err = r.rehash(ctx, desc.Digest.Algorithm()); err != nil {
			return errors.Join(err, r.Close())
		}
	}
	if err := artifact.CheckContent(desc, r.off, got); err != nil {
		return errors.Join(err, r.Discard())
	}
	there, err := r.s.Keep(ctx, desc)
	if err != nil {
		return errors.Join(err, r.Close())
	}
	if there {
		return r.Discard()
	}
	if err := r.place(desc); err != nil {
		return errors.Join(err, r.Close())
	}
	r.s.rememberBlob(desc)
	err = errors.Join(IgnoreMissing(r.s.dir.Remove(r.name+".state")), r.lock.RemoveUnlock())
	return err
}

// place renames the complete file into the store. The bytes may be days old, so
// the blob is marked before gc can see it.
func (r *resumable) place(desc ocispec.Descriptor) error {
	if err := r.f.Sync(); err != nil {
		return err
	}
	if err := r.s.Mark(desc.Digest); err != nil {
		return err
	}
	if err := r.s.dir.Chmod(r.name, 0o444); err != nil {
		return err
	}
	f := r.f
	r.f = nil
	if err := f.Close(); err != nil {
		return errors.Join(err, r.lock.Unlock())
	}
	if err := r.s.land(r.name, desc.Digest); err != nil {
		return errors.Join(err, r.lock.Unlock())
	}
	return nil
}

// rehash reads the bytes again for another algorithm than SHA-256.
func (r *resumable) rehash(ctx context.Context, a digest.Algorithm) (digest.Digest, error) {
	f, err := r.s.dir.Root().Open(filepath.FromSlash(r.name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := a.Hash()
	if _, err := CopyHash(ctx, nil, h, f, r.off); err != nil {
		return "", err
	}
	return digest.NewDigest(a, h), nil
}

// Discard drops the received bytes and closes.
func (r *resumable) Discard() error {
	if r.f == nil {
		return nil
	}
	err := errors.Join(r.f.Close(),
		IgnoreMissing(r.s.dir.Remove(r.name+".state")),
		IgnoreMissing(r.s.dir.Remove(r.name)),
		r.lock.RemoveUnlock())
	r.f = nil
	return err
}

// Partial is an incomplete blob that survives the process: after a kill no
// byte need be fetched again, after a power cut at most 64 MiB. It is not safe
// for concurrent use.
type Partial struct {
	resumable
	desc ocispec.Descriptor
}

// Partial opens the resumable ingest of the blob desc, waiting while another
// process has it. The error is errdef.ErrAlreadyExists where the blob is there.
// Manifests are small: Push them.
func (s *Blobs) Partial(ctx context.Context, desc ocispec.Descriptor) (*Partial, error) {
	p, err := s.partial(ctx, desc)
	if err != nil {
		return nil, fmt.Errorf("take in %s: %w", desc.Digest, err)
	}
	return p, nil
}

// Received returns the number of bytes of an incomplete blob.
func (s *Blobs) Received(d digest.Digest) int64 {
	fi, err := s.dir.Root().Stat(filepath.FromSlash(PartialDir + "/" + flatName(d)))
	if err != nil {
		return 0
	}
	return fi.Size()
}

func (s *Blobs) partial(ctx context.Context, desc ocispec.Descriptor) (*Partial, error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	if err := artifact.CheckDescriptor(desc); err != nil {
		return nil, err
	}
	if artifact.IsManifest(desc.MediaType) {
		return nil, fmt.Errorf("a manifest: %w", errdef.ErrUnsupported)
	}
	r, err := s.resume(ctx, PartialDir+"/"+flatName(desc.Digest), true, true)
	if err != nil {
		return nil, err
	}
	there, err := s.Keep(ctx, desc)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if there {
		return nil, errors.Join(errdef.ErrAlreadyExists, r.Discard())
	}
	p := &Partial{resumable: *r, desc: desc}
	if p.off > desc.Size {
		if err := p.Reset(); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

// Write appends b. It refuses more bytes than the descriptor's size.
func (p *Partial) Write(b []byte) (int, error) {
	if int64(len(b)) > p.desc.Size-p.off {
		return 0, fmt.Errorf("take in %s: %w: more than %d bytes", p.desc.Digest, artifact.ErrCorrupt, p.desc.Size)
	}
	return p.resumable.Write(b)
}

// Commit checks size and digest and stores the blob. If bytes are missing, the
// error is io.ErrUnexpectedEOF and the rest is kept. If they are wrong, it is
// artifact.ErrCorrupt and they are dropped. Commit closes the Partial.
func (p *Partial) Commit() error {
	if err := p.commit(context.Background(), p.desc); err != nil {
		return fmt.Errorf("take in %s: %w", p.desc.Digest, err)
	}
	return nil
}

// Upload is an incomplete blob whose digest arrives only at the end, as
// registry clients send it. It is not safe for concurrent use.
type Upload struct {
	resumable
}

// uploadName keeps the sessions of one owner out of another's reach.
func uploadName(owner, id string) string {
	sum := sha256.Sum256([]byte(owner + "\x00" + id))
	return UploadDir + "/" + hex.EncodeToString(sum[:16])
}

// NewUpload starts a session for owner (a repository, say) and returns its id.
// The session survives the process.
func (s *Blobs) NewUpload(ctx context.Context, owner string) (id string, err error) {
	if err := s.writable(); err != nil {
		return "", fmt.Errorf("start upload: %w", err)
	}
	id = rand.Text()
	r, err := s.resume(ctx, uploadName(owner, id), true, false)
	if err == nil {
		err = r.Close()
	}
	if err != nil {
		return "", fmt.Errorf("start upload: %w", err)
	}
	return id, nil
}

// OpenUpload resumes the session id of owner, waiting while another process
// has it. If there is none, the error is errdef.ErrNotFound.
func (s *Blobs) OpenUpload(ctx context.Context, owner, id string) (*Upload, error) {
	if err := s.writable(); err != nil {
		return nil, fmt.Errorf("go on with upload: %w", err)
	}
	r, err := s.resume(ctx, uploadName(owner, id), false, false)
	if err != nil {
		return nil, fmt.Errorf("go on with upload: %w", err)
	}
	return &Upload{*r}, nil
}

// UploadOffset returns the number of durable bytes of the session, without
// waiting for its writer.
func (s *Blobs) UploadOffset(ctx context.Context, owner, id string) (int64, error) {
	name := uploadName(owner, id)
	if _, err := s.dir.Root().Stat(filepath.FromSlash(name)); err != nil {
		return 0, fmt.Errorf("upload: %w", errdef.ErrNotFound)
	}
	state, _, _ := s.readState(name)
	return state.Offset, ctx.Err()
}

// Commit checks the received bytes against desc and stores the blob. If they
// do not match, the session is dropped and the error is artifact.ErrCorrupt.
// Commit closes the Upload.
func (u *Upload) Commit(ctx context.Context, desc ocispec.Descriptor) error {
	err := artifact.CheckDescriptor(desc)
	if err == nil {
		err = u.commit(ctx, desc)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("take in %s: %w", desc.Digest, err), u.Close())
	}
	return nil
}
